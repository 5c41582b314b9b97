# SPDX-License-Identifier: MIT
"""The suite buffers: tarn's buffer pools beside one reused buffer, mmap, and the large blocks of each malloc that is
installed. A process has all of these in turn (bench/buffers/loops.cpp), so that their ratios are of the same moments."""

import argparse
from pathlib import Path

from peers import mallocs
from peers.contender import SUBJECT, Contender, ContenderError
from report.results import Results
from report.tables import by_contender, median
from runner.launch import Launcher, read_json
from runner.session import Cell, Figures, Task
from suites.suite import BUILD_FIRST, Plan, Suite

SCENE = "loops"
SIZES = (1, 8, 16, 32, 128)


def add_options(parser: argparse.ArgumentParser) -> None:
    mallocs.add_peer_options(parser)
    pages = "as TARN_HUGE_PAGES; never: the same kind of pages for all contenders (default: auto)"
    parser.add_argument("--huge-pages", choices=("auto", "always", "never"), default="auto", help=pages)


def read(report: dict, launcher: Launcher) -> Figures:
    pairs = [(way, each) for way, each in read_json(report, launcher).items() if isinstance(each, dict)]
    return {f"{way} {figure}": value for way, each in pairs for figure, value in each.items()}


def plan(options: argparse.Namespace, inputs: Path) -> Plan:
    programs = options.build_dir / "bench"
    own, others = programs / "buffers_loops_tarn", programs / "buffers_loops"
    if not own.exists() or not others.exists():
        raise ContenderError(f"{own} is missing; {BUILD_FIRST}")
    found = Plan()
    runs = [(own, "tarn", Contender(SUBJECT, None))]
    runs += [(others, "malloc", peer) for peer in mallocs.find_peers(options, found.notices)]
    environment = {"TARN_HUGE_PAGES": options.huge_pages}
    for mib in SIZES:
        tasks = (
            Task(malloc.name, kind, (str(program), str(mib), str(options.scale)), read, malloc, environment)
            for program, kind, malloc in runs
        )
        found.cells.append(Cell(SCENE, f"{mib} MiB", tuple(tasks)))
    return found


def tables(results: Results) -> list[str]:
    found = []
    for place in results.cells(SCENE):
        ways = {"malloc": "malloc us", "reused": "reused us", "pool": "pool us", "zeroed pool": "zeroed us", "mmap": "mmap us"}
        columns = {way: (*place, median(results, figure, 0)) for way, figure in ways.items()}
        columns["faults of the pool"] = (*place, median(results, "pool faults", 0))
        found += by_contender(results, f"{place[1]}, µs to take a buffer, write all of it, and give it back", columns)
    return found


SUITE = Suite(
    name="buffers",
    help="tarn's buffer pools beside a reused buffer, mmap, and the large blocks of each malloc",
    add_options=add_options,
    plan=plan,
    tables=tables,
    rounds=(7, 1),
    scale=(500, 5),
)
