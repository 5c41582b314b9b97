# SPDX-License-Identifier: MIT
"""The suite recyclers: tarn's recycler beside new objects, under each malloc, and objects that their user keeps. See
docs/explanation/recycler-benchmarks.md."""

import argparse
from pathlib import Path

from peers import mallocs
from peers.contender import SYSTEM_MALLOC, ContenderError, version_of
from report.results import Results
from report.tables import by_contender, spread
from runner import machine
from runner.launch import read_json
from runner.session import Cell, Task
from suites.suite import BUILD_FIRST, Plan, Suite

ONE, TWO = "1 processor", "2 processors"
PROCESSORS = {ONE: 1, TWO: 2}
# Scene: its cells. Where a cell names processors, the process has no others.
SCENES = {
    "get_release": ("",),
    "parallel": (TWO,),
    "burst100": ("",),
    "cross": (ONE, TWO),
    "buffer10k": ("",),
}
# In buffer10k allocations are counted, by a malloc of the program that precedes glibc's.
SMALL = ("get_release", "parallel", "burst100", "cross")
# Variant: its name in the tables, kind, and where it is measured.
VARIANTS = {
    "fresh": ("fresh", "reference", tuple(SCENES)),
    "by-hand": ("kept by hand", "reference", ("buffer10k",)),
    "recycled": ("tarn::recycler", "tarn", tuple(SCENES)),
    "recycled-bare": ("tarn::recycler, take/give_back", "tarn", ("get_release", "burst100")),
}
LEFT_OUT = ("tbb",)


def plan(options: argparse.Namespace, inputs: Path) -> Plan:
    found = Plan()
    others = [each for each in mallocs.find(options, found.notices, LEFT_OUT) if each != SYSTEM_MALLOC]
    for scene, keys in SCENES.items():
        program = options.build_dir / "bench" / f"recyclers_{scene}"
        if not program.exists():
            raise ContenderError(f"{program} is missing; {BUILD_FIRST}")
        for key in keys:
            processors = PROCESSORS.get(key)
            if (processors or 1) > machine.processors():
                found.notices.append(f"{scene}: it wants two processors, and this process may use one")
                continue
            tasks = []
            for variant, (label, kind, scenes) in VARIANTS.items():
                if scene not in scenes:
                    continue
                words = [str(program), variant, str(options.scale)]
                # What makes each object anew runs under every malloc.
                under = others if variant == "fresh" and scene in SMALL else []
                for name, malloc in [(label, SYSTEM_MALLOC), *((f"{label}, {each.name}", each) for each in under)]:
                    tasks.append(Task(name, kind, tuple(words), read_json, malloc, processors=processors))
            found.cells.append(Cell(scene, key, tuple(tasks)))
    found.versions = {each.name: version_of(each) for each in others}
    return found


def tables(results: Results) -> list[str]:
    ns = spread(results, "ns", 2)
    columns = {" ".join(place).strip(): (*place, ns) for place in results.cells(*SMALL)}
    found = by_contender(results, "An object of 64 bytes, ns per get and give: median", columns)
    figures = {"ns": "ns", "allocations": "allocations", "bytes": "allocated bytes"}
    columns = {words: ("buffer10k", "", spread(results, figure)) for figure, words in figures.items()}
    return found + by_contender(results, "A buffer of 10,000 bytes, filled once: median", columns)


SUITE = Suite(
    name="recyclers",
    help="tarn's recycler beside new objects and objects kept by hand",
    add_options=mallocs.add_options,
    plan=plan,
    tables=tables,
)
