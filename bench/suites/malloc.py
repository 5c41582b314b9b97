# SPDX-License-Identifier: MIT
"""The suite malloc: single calls, allocator workloads and real programs under each malloc, one library after the other
preloaded. See docs/explanation/benchmarks.md."""

import argparse
import json
import shutil
import sys
from pathlib import Path

from peers import contender as peers
from peers import mallocs
from peers.contender import Contender, ContenderError
from report import charts
from report.results import Results
from report.tables import by_cell, by_contender, median, ratio_table, spread
from runner import machine
from runner.launch import Launcher, read_json, read_own_time
from runner.session import Cell, Figures, Task
from suites import real_programs
from suites.suite import BUILD_FIRST, Plan, Suite

# Row, program, threads, what it models.
WORKLOADS = (
    ("larson-4", "larson", 4, "server: threads end and hand their objects on"),
    ("xmalloc-2", "xmalloc", 2, "batches allocated by one thread, freed by another"),
    ("xmalloc-8", "xmalloc", 8, "the same with more threads than processors"),
    ("slots-2", "slots", 2, "exchange through 16,384 shared slots"),
    ("mstress-2", "mstress", 2, "rounds of growth and release with hand-over"),
    ("mstress-8", "mstress", 8, "the same with more threads than processors"),
    ("rbtree", "rbtree", 1, "balanced tree of small nodes, random replacement"),
    ("alloc-test-1", "alloc_test", 1, "random replacement in a large array of mixed sizes"),
    ("alloc-test-4", "alloc_test", 4, "the same on four threads"),
    ("glibc-thread-8", "glibc_thread", 8, "small working sets of random sizes per thread"),
    ("thread-churn-4", "thread_churn", 4, "threads that start, allocate a little and end"),
    ("size-drift", "size_drift", 1, "sizes of the live set move: fragmentation"),
    ("large-set", "large_set", 1, "twenty live blocks of 5-25 MiB, replaced at random"),
    ("large-buffers", "large_buffers", 1, "allocate, fill and free 8-64 MiB again and again"),
    ("rptest-8", "rptest", 8, "sizes up to 16 KB, a share freed by the neighbour"),
    ("strings", "strings", 1, "text processing: strings, vectors, hash maps"),
    ("reinsert", "reinsert", 1, "containers filled, erased in random order, filled again"),
    ("ring-2", "ring", 2, "one producer, one consumer, 64-byte messages"),
)
CALLS = ("bench_cycles", "bench_micro")
COUNTS = "call-counts"
# Under valgrind snmalloc aborts, and tcmalloc, without restartable sequences, takes another way.
UNCOUNTED = ("snmalloc", "tcmalloc")
PEAK = "after-peak"
# Seconds after the last free, as the program prints them.
WAITS = ("0.1", "1", "5", "12")
# Those that --threads runs at each number of threads.
SCALING = ("larson", "xmalloc", "slots", "mstress", "alloc_test", "glibc_thread", "thread_churn", "rptest", "ring")


def add_options(parser: argparse.ArgumentParser) -> None:
    extra = "another contender, or one with settings of its own"
    parser.add_argument("--with", dest="extra", action="append", default=[], metavar="NAME=LIB[,VAR=VALUE...]", help=extra)
    mallocs.add_options(parser)
    scaling = "also the scaling table, for these numbers of threads (default: up to the processors)"
    parser.add_argument("--threads", nargs="?", const="", metavar="T1,T2,...", help=scaling)


def find_contenders(options: argparse.Namespace, notices: list[str]) -> list[Contender]:
    """tarn first, then the peers, then what --with names."""
    found = mallocs.find(options, notices)
    extras = [peers.parse_extra(text) for text in options.extra]
    names = [each.name for each in found + extras]
    if len(set(names)) != len(names):
        raise ContenderError(f"two contenders share a name: {', '.join(sorted(names))}")
    if options.contenders:  # what --with names is measured even if --contenders does not name it
        options.contenders = ",".join([options.contenders, *(each.name for each in extras)])
    return found + extras


def tasks(contenders: list[Contender], command: list[str], read, environment: dict[str, str] | None = None, task=Task):
    return tuple(
        task(each.name, "tarn" if each.name == peers.SUBJECT else "peer", tuple(command), read, each, environment or {})
        for each in contenders
    )


def asked_thread_counts(text: str | None) -> list[int]:
    """As named; else 1, 2, 4, … up to the machine's processors, which are always the last."""
    if text is None:
        return []
    if not text:
        processors = machine.processors()
        return [*(1 << bit for bit in range(processors.bit_length()) if 1 << bit < processors), processors]
    words = text.split(",")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ContenderError(f'--threads takes numbers from 1, like 1,2,4, not "{text}"')
    return sorted({int(word) for word in words})


def read_calls(report: dict, launcher: Launcher) -> Figures:
    """Of bench_cycles, ticks; Google Benchmark counts items, of which the time of one is what compares."""
    output = json.loads(launcher.output.read_text())
    if "benchmarks" not in output:
        return {f"{test}, ticks per pair": output[test] for test in ("pair64", "batch1000")}
    return {
        f"{each['name'].removesuffix('/real_time')}, ns": 1e9 / each["items_per_second"]
        for each in output["benchmarks"]
        if each.get("items_per_second")
    }


def call_cells(options: argparse.Namespace, contenders: list[Contender], notices: list[str]) -> list[Cell]:
    """Those of the programs that are built."""
    minimum = "0.005" if options.quick else "0.04"
    found = []
    for name, words, advice in (
        ("bench_cycles", ["200" if options.quick else "2000"], "cmake --build --preset bench"),
        (
            "bench_micro",
            ["--benchmark_format=json", f"--benchmark_min_time={minimum}"],
            "Debian: apt-get install libbenchmark-dev, then build again",
        ),
    ):
        program = options.build_dir / "bench" / name
        if program.exists():
            found.append(Cell(name, "", tasks(contenders, [str(program), *words], read_calls), "single calls"))
        else:
            notices.append(f"{name} is not built ({advice})")
    return found


def count_cells(options: argparse.Namespace, contenders: list[Contender], notices: list[str]) -> list[Cell]:
    if not shutil.which("valgrind"):
        notices.append(f"{COUNTS}: valgrind is not installed (Debian: apt-get install valgrind)")
        return []
    reader = Path(__file__).resolve().parent.parent / "micro" / "traced_calls.py"
    program = options.build_dir / "bench" / "bench_traced_calls"
    command = [sys.executable, "-B", str(reader), str(program), "20" if options.quick else "1000"]
    note = "instructions and cache lines of single calls, under valgrind"
    counted = [each for each in contenders if not each.name.startswith(UNCOUNTED)]
    return [Cell(COUNTS, "", tasks(counted, command, read_json), note, touch=False, once=True)]


def workload_cell(
    options: argparse.Namespace, contenders: list[Contender], scene: str, row: tuple[str, str, int, str]
) -> Cell:
    name, program, threads, note = row
    path = options.build_dir / "bench" / program
    if not path.exists() and not options.list:
        raise ContenderError(f"{path} is missing; {BUILD_FIRST}")
    command = [str(path), str(threads), str(options.scale)]
    twin = scene == "workload"
    return Cell(scene, name, tasks(contenders, command, read_own_time), note, twin=twin, warm_up=True)


def peak_cell(options: argparse.Namespace, contenders: list[Contender]) -> Cell:
    command = [str(options.build_dir / "bench" / "after_peak"), "1", str(options.scale)]
    return Cell(PEAK, "", tasks(contenders, command, read_json), "1 GiB allocated and freed, then idle: what stays resident")


def plan(options: argparse.Namespace, inputs: Path) -> Plan:
    found = Plan()
    contenders = find_contenders(options, found.notices)
    counts = asked_thread_counts(options.threads)
    scaling = [(f"{program}@{count}", program, count, "") for program in SCALING for count in counts]
    found.cells += call_cells(options, contenders, found.notices)
    found.cells += count_cells(options, contenders, found.notices)
    found.cells += [workload_cell(options, contenders, "workload", row) for row in WORKLOADS]
    found.cells.append(peak_cell(options, contenders))
    found.cells += real_programs.cells(contenders, inputs, tasks, found.notices)
    found.cells += [workload_cell(options, contenders, "scaling", row) for row in scaling]
    found.versions = {each.name: peers.version_of(each) for each in contenders}
    return found


def all_figures(results: Results, names: list[str] | None = None) -> list[str]:
    others = (("cpu",), ("minor", 1, 1e-3), ("rss", 1, 1e-6))
    texts = [spread(results, "seconds", 3), *(median(results, *each) for each in others)]
    title = "Seconds, median / CPU seconds / minor page faults in thousands / peak RSS in MB"
    return by_cell(results, title, charts.ROWS, lambda *at: " / ".join(text(*at) for text in texts), names)


def count_table(results: Results) -> list[str]:
    figures = next((run["figures"] for run in results.runs if run["scene"] == COUNTS), {})
    columns = {}
    for scene in dict.fromkeys(figure.partition(":")[0] for figure in figures):
        texts = [median(results, f"{scene}: {what}", 0) for what in ("instructions", "data lines", "code lines")]
        columns[scene] = (COUNTS, "", lambda *at, texts=texts: " / ".join(text(*at) for text in texts))
    title = "Instructions / cache lines of data / cache lines of code: counted, the same on every machine"
    return by_contender(results, title, columns)


def tables(results: Results) -> list[str]:
    rows, subject, among = charts.ROWS, peers.SUBJECT, results.names("peer")
    found = all_figures(results, [subject])
    found += ratio_table(results, "Time over the best peer of the row", rows, "seconds", among, subject)
    found += ratio_table(results, "Peak RSS over the leanest of the row", rows, "rss", results.originals(), subject)
    figures = {figure: run["scene"] for run in results.runs if run["scene"] in CALLS for figure in run["figures"]}
    columns = {figure: (scene, "", median(results, figure)) for figure, scene in figures.items()}
    found += by_contender(results, "Single calls, median over processes", columns)
    found += count_table(results)
    columns = {"peak, MB": (PEAK, "", median(results, "peak", 0, 1e-6))}
    columns |= {f"after {wait} s": (PEAK, "", median(results, f"after {wait} s", 0, 1e-6)) for wait in WAITS}
    columns |= {f"longest {call}, µs": (PEAK, "", median(results, f"longest {call}", 0)) for call in ("malloc", "free")}
    found += by_contender(results, "After a peak, all but 0.1 % of the blocks freed: resident MB, and the longest single call", columns)
    title = "Scaling: seconds for the same work at so many threads"
    return found + by_cell(results, title, ("scaling",), spread(results, "seconds", 3))


SUITE = Suite(
    name="malloc",
    help="tarn beside its peers: single calls, allocator workloads, real programs",
    add_options=add_options,
    plan=plan,
    tables=tables,
    details=all_figures,
    draw=charts.draw_malloc,
    rounds=(5, 2),
    scale=(1000, 50),
    touch=(512, 512),
    limit=120,
)
