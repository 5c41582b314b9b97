# SPDX-License-Identifier: MIT
"""The suite buffers: tarn's buffer pools beside one reused buffer, mmap, and the large blocks of each malloc that is
installed. A process has all of these in turn (bench/buffers/loops.cpp), so that their ratios are of the same moments."""

import argparse

from peers import mallocs
from peers.contender import SUBJECT, SYSTEM, Contender, ContenderError
from report.goals import Wanted
from report.results import Results
from report.table import Table
from runner.launch import Launcher, read_json
from runner.session import Cell, Figures, Task
from suites.suite import BUILD_FIRST, Plan, Suite

SCENE = "loops"
SIZES = (1, 8, 16, 32, 128)


def sizes_of(text: str) -> tuple[int, ...]:
    """The sizes in a text such as 1,8,32."""
    sizes = tuple(int(each) if each.isdecimal() else 0 for each in text.split(","))
    if 0 in sizes:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of sizes in MiB, such as 8,32")
    return sizes


def add_options(parser: argparse.ArgumentParser) -> None:
    mallocs.add_peer_options(parser)
    parser.add_argument("--sizes", type=sizes_of, metavar="MIB,…", default=SIZES, help="default: 1,8,16,32,128")
    pages = "as TARN_HUGE_PAGES; never: the same kind of pages for all contenders (default: auto)"
    parser.add_argument("--huge-pages", choices=("auto", "always", "never"), default="auto", help=pages)


def read(report: dict, launcher: Launcher) -> Figures:
    output = read_json(report, launcher)
    pairs = [(way, each) for way, each in output.items() if isinstance(each, dict)]
    return {f"{way} {figure}": value for way, each in pairs for figure, value in each.items()}


def plan(options: argparse.Namespace, inputs) -> Plan:
    programs = options.build_dir / "bench"
    own, others = programs / "buffers_loops_tarn", programs / "buffers_loops"
    if not own.exists() or not others.exists():
        raise ContenderError(f"{own} is missing; {BUILD_FIRST}")
    found = Plan()
    peers = mallocs.find_peers(options, found.notices)
    runs = [(own, "tarn", Contender(SUBJECT, None)), *((others, "malloc", peer) for peer in peers)]
    environment = {"TARN_HUGE_PAGES": options.huge_pages}
    for mib in options.sizes:
        tasks = tuple(
            Task(malloc.name, kind, (str(program), str(mib), str(options.scale)), read, malloc, environment)
            for program, kind, malloc in runs
        )
        found.cells.append(Cell(SCENE, f"{mib} MiB", tasks))
    return found


def tables(results: Results) -> list[Table]:
    columns = {"written only": (SUBJECT, "reused us"), "pool": (SUBJECT, "pool us"), "zeroed pool": (SUBJECT, "zeroed us")}
    columns |= {f"malloc, {name}": (name, "malloc us") for name in results.names()}
    columns["mmap"] = (SUBJECT, "mmap us")
    table = Table("µs to take a buffer, write all of it, and give it back; medians of the rounds", ["buffer", *columns])
    for cell in results.cells(SCENE):
        values = [results.median(SCENE, cell, *place) for place in columns.values()]
        table.rows.append([cell, *("-" if value is None else f"{value:,.0f}" for value in values)])
    return [table]


def wanted(figure: str, limit: float, text: str, other: str | None, **more) -> Wanted:
    """All figures of a ratio are of the same process."""
    contender = more.pop("contender", SUBJECT)
    over = contender if other else None
    return Wanted(SCENE, contender, figure, limit, "{cell}: " + text, over, other, **more)


GOAL_SIZES = ("8 MiB", "16 MiB", "32 MiB")
WANTED = (
    wanted("pool faults", 0, "page faults of the pool after the first round", None, cells=GOAL_SIZES),
    wanted("pool us", 1.03, "pool over writing one reused buffer", "reused us", cells=GOAL_SIZES),
    wanted("malloc us", 1.05, "malloc of libtarn over writing one reused buffer", "reused us", cells=GOAL_SIZES),
    wanted("malloc us", 1.05, "malloc of libtarn over the pool", "pool us", cells=GOAL_SIZES),
    *(
        wanted("malloc us", 5, f"{name}'s malloc over the pool", "pool us", contender=name, at_most=False, cells=("32 MiB",))
        for name in (SYSTEM, "jemalloc")
    ),
)

SUITE = Suite(
    name="buffers",
    help="tarn's buffer pools beside a reused buffer, mmap, and the large blocks of each malloc",
    add_options=add_options,
    plan=plan,
    tables=tables,
    wanted=WANTED,
    goals_decide=True,
    rounds=(7, 1),
    scale=(500, 5),
)
