# SPDX-License-Identifier: MIT
"""The suite pools: tarn's typed pools beside other pools and mallocs. See docs/explanation/pools-benchmarks.md."""

import argparse
import subprocess
from pathlib import Path

from peers import mallocs
from peers.contender import SUBJECT, SYSTEM_MALLOC, Contender, ContenderError, package_version, version_of
from report import charts
from report.results import Results
from report.tables import by_contender, median, spread
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
# Library: Debian package by which its version is told.
LIBRARIES = {"Boost": "libboost-dev", "Boost.Container": "libboost-container-dev", "foonathan/memory": "libfoonathan-memory-dev"}


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


def plan(options: argparse.Namespace, inputs: Path) -> Plan:
    found = Plan()
    libraries = mallocs.find(options, found.notices, LEFT_OUT)
    for scene, parameters in SCENES.items():
        program = options.build_dir / "bench" / f"pools_{scene}"
        here = listed(program)
        for arguments in parameters:
            tasks = tuple(
                Task(label, kind, (str(program), name, *arguments, str(options.scale)), read_json, malloc)
                for name in here
                for label, kind, malloc in contenders_of(name, libraries)
            )
            found.cells.append(Cell(scene, " ".join(arguments), tasks, touch=scene not in UNTOUCHED))
    versions = {library.name: version_of(library) for library in libraries}
    versions |= {library: package_version(package) for library, package in LIBRARIES.items()}
    found.versions = {name: version for name, version in versions.items() if version}
    return found


def tables(results: Results) -> list[str]:
    header = {"batch1": "5,000, 1 B", "batch64": "5,000, 64 B", "pair1": "pair, 1 B", "pair64": "pair, 64 B"}
    columns = {words: ("pairs", "", spread(results, figure)) for figure, words in header.items()}
    found = by_contender(results, "new + delete of a class, ticks per pair: median", columns)
    for count in dict.fromkeys(cell.split()[1] for _, cell in results.cells("containers")):
        at = {name: ("containers", f"{name} {count}") for name in ("unordered_set", "list", "map")}
        texts = {"": spread(results, "sum"), ", MB": median(results, "grown", 1, 1e-6)}
        columns = {name + unit: (*place, text) for name, place in at.items() for unit, text in texts.items()}
        columns["list, second insertion"] = (*at["list"], median(results, "again", 1))
        title = f"Containers of {int(count):,} ints, ticks per element inserted, erased, inserted again: median"
        found += by_contender(results, title, columns, "MB: growth of the process")
    columns = {f"T = {cell}": ("threads", cell, spread(results, "ns")) for _, cell in results.cells("threads")}
    shortened = "who takes more than two seconds stops after fewer rounds"
    title = "T threads x 100,000 objects of 64 B, 50 rounds, ns per take + give: median"
    found += by_contender(results, title, columns, shortened)
    header = {"live": "all live", "idle": "2 s after all were returned", "ended": "threads ended"}
    columns = {words: ("memory", "", median(results, figure, 1, 1e-6)) for figure, words in header.items()}
    title = "Resident MB above the test's own, 16 threads x 100,000 objects of 64 B"
    found += by_contender(results, title, columns)
    columns = {"million/s": ("ring", "", spread(results, "rate")), "growth, MB": ("ring", "", median(results, "grown", 1, 1e-6))}
    found += by_contender(results, "One producer, one consumer, batches of 256 pointers: median", columns)
    columns = {f"T = {cell}": ("slots", cell, spread(results, "rate")) for _, cell in results.cells("slots")}
    title = "Exchange through 16,384 shared slots, million operations/s: median"
    return found + by_contender(results, title, columns)


SUITE = Suite(
    name="pools",
    help="tarn's typed pools beside other pools and mallocs",
    add_options=mallocs.add_options,
    plan=plan,
    tables=tables,
    draw=charts.draw_threads,
    rounds=(3, 1),
    scale=(1000, 30),
    touch=(512, 16),
)
