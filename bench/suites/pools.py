# SPDX-License-Identifier: MIT
"""The suite pools: tarn's typed pools beside other pools and mallocs. See docs/explanation/pools-benchmarks.md."""

import argparse
import subprocess
from functools import partial
from pathlib import Path

from peers import mallocs
from peers.contender import SUBJECT, SYSTEM_MALLOC, Contender, ContenderError, package_version, version_of
from report import charts
from report.goals import OTHERS, Wanted
from report.results import Results
from report.table import Table, contender_table, number, sorted_names, spread
from runner.launch import read_json
from runner.session import Cell, Task
from suites.suite import BUILD_FIRST, Plan, Suite

# Scene: what the program is given beside the contender and the scale. One cell each.
SCENES: dict[str, list[tuple[str, ...]]] = {
    "pairs": [()],
    "containers": [
        (container, count) for count in ("5000", "1000000") for container in ("unordered_set", "list", "map")
    ],
    "threads": [("1",), ("2",), ("4",), ("8",), ("16",)],
    "memory": [()],
    "ring": [()],
    "slots": [("1",), ("2",), ("4",)],
}
# Where resident bytes are the only figure, what the system's free memory was before does not matter.
UNTOUCHED = ("memory",)

REFERENCE, PEER, MALLOC, TARN = "reference", "peer", "malloc", "tarn"
# Name in the programs: name in the tables, kind. A contender of a library that was not found at configure time is missing
# from the programs' lists.
POOLS = {
    "no-allocation": ("no allocation at all", REFERENCE),
    "bare-chain": ("bare single-thread chain", REFERENCE),
    "bare-thread-chain": ("bare thread-local chain", REFERENCE),
    "bare-thread-array": ("bare thread-local array", REFERENCE),
    "classic-memory-pool": ("classic memory pool, global", PEER),
    "classic-memory-pool-tls": ("classic memory pool, thread_local", PEER),
    "classic-object-pool": ("classic object pool", PEER),
    "classic-pooled-allocator": ("classic pooled_allocator", PEER),
    "boost-pool": ("boost::pool", PEER),
    "boost-object-pool": ("boost::object_pool", PEER),
    "boost-singleton-pool": ("boost::singleton_pool", PEER),
    "boost-fast-pool-allocator": ("boost::fast_pool_allocator", PEER),
    "boost-fast-pool-allocator-no-mutex": ("boost::fast_pool_allocator, no mutex", PEER),
    "boost-node-allocator": ("boost::container::node_allocator", PEER),
    "boost-pmr-unsynchronized": ("boost::container::pmr unsynchronized", PEER),
    "foonathan": ("foonathan::memory node pool", PEER),
    "foonathan-mutex": ("foonathan::memory node pool, mutex", PEER),
    "pmr-monotonic": ("std::pmr monotonic", PEER),
    "pmr-unsynchronized": ("std::pmr unsynchronized pool", PEER),
    "pmr-synchronized": ("std::pmr synchronized pool", PEER),
    "tarn-local-pool": ("tarn::local_pool", TARN),
    "tarn-pool-of": ("tarn::pool_of", TARN),
    "tarn-object-pool": ("tarn::object_pool", TARN),
    "tarn-pooled-allocator": ("tarn::pooled_allocator", TARN),
    "tarn-local-pool-resource": ("tarn::local_pool_resource", TARN),
}
# These run once under each of the mallocs, of which these are left out.
UNDER_EACH_MALLOC = {"new-delete": "new/delete", "std-allocator": "std::allocator"}
LEFT_OUT = ("tbb",)
# Library: Debian package by which its version is told, and how its contenders' names begin.
LIBRARIES = {
    "Boost": ("libboost-dev", "boost-"),
    "Boost.Container": ("libboost-container-dev", "boost-node-"),
    "foonathan/memory": ("libfoonathan-memory-dev", "foonathan"),
}


def listed(program: Path) -> list[str]:
    if not program.exists():
        raise ContenderError(f"{program} is missing; {BUILD_FIRST}")
    done = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ContenderError(f"{program} --list ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.split()


def contenders_of(name: str, libraries: list[Contender]) -> list[tuple[str, str, Contender]]:
    """Name in the tables, kind and malloc of each that the programs call `name`."""
    if name in UNDER_EACH_MALLOC:
        label = UNDER_EACH_MALLOC[name]
        return [(f"{label}, {each.name}", TARN if each.name == SUBJECT else MALLOC, each) for each in libraries]
    if name in POOLS:
        return [(*POOLS[name], SYSTEM_MALLOC)]
    raise ContenderError(f"a program has a contender {name} that bench/suites/pools.py lacks")


def missing_libraries(names: set[str]) -> list[str]:
    """A notice for each library of which no program has a contender."""
    return [
        f"{library} was not found when the build was configured, so it takes no part "
        f"(Debian: apt-get install {package}, then configure again)"
        for library, (package, prefix) in LIBRARIES.items()
        if not any(name.startswith(prefix) for name in names)
    ]


def plan(options: argparse.Namespace, inputs: Path) -> Plan:
    found = Plan()
    libraries = mallocs.find(options, found.notices, LEFT_OUT)
    names: set[str] = set()
    for scene, parameters in SCENES.items():
        program = options.build_dir / "bench" / f"pools_{scene}"
        here = listed(program)
        names |= set(here)
        for arguments in parameters:
            tasks = tuple(
                Task(label, kind, (str(program), name, *arguments, str(options.scale)), read_json, malloc)
                for name in here
                for label, kind, malloc in contenders_of(name, libraries)
            )
            found.cells.append(Cell(scene, " ".join(arguments), tasks, touch=scene not in UNTOUCHED))
    found.notices += missing_libraries(names)
    versions = {library.name: version_of(library) for library in libraries}
    versions |= {library: package_version(package) for library, (package, _) in LIBRARIES.items()}
    found.versions = {name: version for name, version in versions.items() if version}
    return found


SHORTENED = "†"
POOL, LOCAL, ALLOCATOR = "tarn::pool_of", "tarn::local_pool", "tarn::pooled_allocator"
CLASSIC, GLIBC = "classic object pool", "new/delete, glibc"
ARRAY, LIMIT = "bare thread-local array", "no allocation at all"


def pairs_table(results: Results) -> Table:
    header = {"pair1": "pair, 1 B", "pair64": "pair, 64 B", "batch1": "5,000, 1 B", "batch64": "5,000, 64 B"}
    columns = {words: spread(results, "pairs", "", figure) for figure, words in header.items()}
    title = "new + delete of a class, ticks per pair: median [lowest..highest]"
    return contender_table(results, title, columns, sorted_names(results, "pairs", "", "batch1"))


def megabytes(results: Results, scene: str, cell: str, figure: str):
    return lambda name: number(results.median(scene, cell, name, figure) / 1e6, 1)


def container_table(results: Results, cell: str) -> Table:
    container, count = cell.split()
    header = {"insert": "insert", "erase": "erase", "again": "insert again", "sum": "sum"}
    if int(count) < 100_000:
        header["first"] = "sum of the first container"
    columns = {words: spread(results, "containers", cell, figure) for figure, words in header.items()}
    columns["growth, MB"] = megabytes(results, "containers", cell, "grown")
    title = f"{container} of int, N = {int(count):,}, ticks per operation: median [lowest..highest]"
    return contender_table(results, title, columns, sorted_names(results, "containers", cell, "sum"), "allocator")


def threads_table(results: Results) -> Table:
    def text(count: str):
        def marked(name: str) -> str:
            share = results.median("threads", count, name, "share")
            return spread(results, "threads", count, "ns")(name) + (SHORTENED if share is not None and share < 1 else "")

        return marked

    counts = results.cells("threads")
    title = "T threads x 100,000 objects of 64 B, 50 rounds, ns per take + give: median [lowest..highest]"
    columns = {f"T = {count}": text(count) for count in counts}
    table = contender_table(results, title, columns, sorted_names(results, "threads", counts[0], "ns"))
    table.remarks.append(f"{SHORTENED} stopped after two seconds, so with fewer than 50 rounds")
    return table


def memory_table(results: Results) -> Table:
    def text(figure: str):
        def share(name: str) -> str:
            value, payload = (results.median("memory", "", name, each) for each in (figure, "payload"))
            return f"{value / 1e6:.1f} ({100 * value / payload:.1f})"

        return share

    header = {"live": "all live", "idle": "2 s after all were returned", "ended": "threads ended"}
    title = "Resident MB above the test's own, 16 threads x 100,000 objects of 64 B (in % of the payload)"
    columns = {words: text(figure) for figure, words in header.items()}
    return contender_table(results, title, columns, sorted_names(results, "memory", "", "live"))


def ring_table(results: Results) -> Table:
    limit = results.median("ring", "", LIMIT, "rate")
    columns = {
        "M objects/s": spread(results, "ring", "", "rate"),
        "of the ring without allocation": lambda name: number(
            results.median("ring", "", name, "rate") / limit if limit else None
        ),
        "objects, M": lambda name: number(results.median("ring", "", name, "millions"), 1),
        "growth, MB": spread(results, "ring", "", "grown", factor=1e-6),
    }
    title = "One producer, one consumer, batches of 256 pointers: median [lowest..highest]"
    table = contender_table(results, title, columns, sorted_names(results, "ring", "", "rate", more=True))
    table.remarks.append("below 10 million objects: stopped after two seconds")
    return table


def slots_table(results: Results) -> Table:
    counts = results.cells("slots")
    columns = {f"T = {count}": spread(results, "slots", count, "rate") for count in counts}
    title = "Exchange through 16,384 shared slots, million operations/s: median [lowest..highest]"
    return contender_table(results, title, columns, sorted_names(results, "slots", counts[0], "rate", more=True))


def tables(results: Results) -> list[Table]:
    parts = {
        "pairs": [pairs_table],
        "containers": [partial(container_table, cell=cell) for cell in results.cells("containers")],
        "threads": [threads_table],
        "memory": [memory_table],
        "ring": [ring_table],
        "slots": [slots_table],
    }
    return [build(results) for scene, builders in parts.items() if results.cells(scene) for build in builders]


WANTED = (
    *(
        Wanted("pairs", name, f"{figure}{size}", limit, f"{name}: {what}, {size} B, ticks")
        for name, figure, what, limit in (
            (LOCAL, "pair", "new, then delete", 2.5),
            (POOL, "pair", "new, then delete", 4.0),
            (LOCAL, "batch", "5,000 new, then 5,000 delete", 5.8),
            (POOL, "batch", "5,000 new, then 5,000 delete", 7.5),
        )
        for size in (1, 64)
    ),
    *(
        Wanted("containers", ALLOCATOR, phase, 1.03, f"{ALLOCATOR}: {{cell}}, {phase}, over the best peer", over=OTHERS)
        for phase in ("insert", "erase", "again")
    ),
    Wanted("threads", POOL, "ns", 0.75, f"{POOL}: {{cell}} threads, over the best malloc", over=(MALLOC,)),
    *(
        Wanted("threads", POOL, "ns", limit, f"{POOL}: {{cell}} threads, over {other}", over=other)
        for other, limit in ((CLASSIC, 0.40), (GLIBC, 0.40), (ARRAY, 1.25))
    ),
    *(
        Wanted("memory", POOL, figure, limit, f"{POOL}: resident over payload, {when}", over=POOL, over_figure="payload")
        for figure, when, limit in (
            ("live", "all objects live", 1.02),
            ("idle", "2 s after all were returned", 0.10),
        )
    ),
    Wanted("ring", POOL, "rate", 0.45, f"{POOL}: ring, rate over that without allocation", over=LIMIT, at_most=False),
    Wanted("slots", POOL, "rate", 1.0, f"{POOL}: slots, {{cell}} threads, rate over the best peer", over=OTHERS, at_most=False),
)

SUITE = Suite(
    name="pools",
    help="tarn's typed pools beside other pools and mallocs",
    add_options=mallocs.add_options,
    plan=plan,
    tables=tables,
    wanted=WANTED,
    compared={
        "pairs": (("pair1", "pair64", "batch1", "batch64"), False),
        "containers": (("insert", "erase", "again", "sum", "grown"), False),
        "threads": (("ns",), False),
        "memory": (("live", "idle", "ended"), False),
        "ring": (("rate", "grown"), True),
        "slots": (("rate",), True),
    },
    draw=partial(charts.draw_threads, subject=POOL),
    page="pools-benchmarks.md",
    rounds=(3, 1),
    scale=(1000, 30),
    touch=(512, 16),
)
