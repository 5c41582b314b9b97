# SPDX-License-Identifier: MIT
"""The suite recyclers: tarn's recycler beside Go's sync.Pool and Netty's Recycler, each in its own language. See
docs/explanation/recycler-benchmarks.md."""

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from peers import mallocs
from peers import recyclers as peers
from peers.contender import SYSTEM_MALLOC, Contender, ContenderError, package_version, version_of
from peers.output import parse_go, parse_jmh
from report.goals import Wanted
from report.results import Results
from report.table import Table, contender_table, spread
from runner import machine
from runner.launch import RESULT_FILE, Launcher, RunFailed, read_json
from runner.session import Cell, Figures, Task
from suites.suite import BUILD_FIRST, Plan, Suite

ROOT = Path(__file__).resolve().parent.parent.parent
ORDER = ROOT / "bench" / "recyclers" / "order.json"

ONE, TWO = "1 processor", "2 processors"
PROCESSORS = {ONE: 1, TWO: 2}
# Scene: its cells. Where a cell names processors, the process has no others.
SCENES = {
    "get_release": ("",),
    "parallel": (TWO,),
    "burst100": ("",),
    "cross": (ONE, TWO),
    "buffer10k": ("",),
    "json": ("",),
}
# In these scenes the contender that makes each object anew runs under every malloc, except those that are left out.
SMALL = ("get_release", "parallel", "burst100", "cross")
LEFT_OUT = ("tbb",)
# Scenes in which allocations are counted, and an object is also kept by hand. The recycled one must need no allocation; what
# a session's first rounds need is a part of a thousandth. The program counts in a malloc of its own, before glibc's.
COUNTED = ("buffer10k", "json")
NO_ALLOCATION = 0.01

FRESH, BY_HAND, RECYCLED, BARE = "fresh", "by-hand", "recycled", "recycled-bare"
# Language: its name in the tables, and what recycles in it.
LANGUAGES = {"tarn": ("C++", "tarn::recycler"), "go": ("Go", "Go sync.Pool"), "netty": ("Java", "Netty Recycler")}
# Where a variant is measured at all.
ONLY_IN = {BY_HAND: COUNTED, BARE: ("get_release", "burst100")}

# Of a scene's objects no more than this may be allocated per operation by who says that he recycles them; the documents
# of json hold strings that their parsers allocate.
REUSE_BYTES = 32


def variants(language: str, scene: str) -> list[str]:
    if language == "netty" and scene == "json":
        return []
    known = (FRESH, BY_HAND, RECYCLED, BARE) if language == "tarn" else (FRESH, BY_HAND, RECYCLED)
    return [each for each in known if scene in ONLY_IN.get(each, SCENES)]


def label(language: str, variant: str) -> tuple[str, str]:
    """Name in the tables and kind."""
    name, recycler = LANGUAGES[language]
    if variant in (FRESH, BY_HAND):
        return f"{name}, {'fresh' if variant == FRESH else 'kept by hand'}", "reference"
    return f"{recycler}, take/give_back" if variant == BARE else recycler, "tarn" if language == "tarn" else "peer"


def read_own(report: dict, launcher: Launcher) -> Figures:
    figures = read_json(report, launcher)
    if not figures.get("ns", 0) > 0:
        raise RunFailed(f"no figure: {figures}")
    return figures


def read_peer(report: dict, launcher: Launcher, parse, name: str, reuses: bool) -> Figures:
    """`parse` reads Go's or JMH's output; JMH writes a file of its own."""
    figures = parse((launcher.result if parse is parse_jmh else launcher.output).read_text(), name)
    if reuses and figures.get("bytes", 0) > REUSE_BYTES:
        raise RunFailed(f"it allocated {figures['bytes']:.0f} bytes per operation: nothing was reused")
    return figures


def go_name(scene: str, variant: str) -> str:
    """get_release, by-hand: GetReleaseByHand."""
    return "".join(word.capitalize() for word in f"{scene}_{variant}".replace("-", "_").split("_"))


def go_command(program: Path, name: str, processors: int, quick: bool) -> list[str]:
    time = "5ms" if quick else "400ms"
    words = [f"-test.bench=^Benchmark{name}$", "-test.count=1", f"-test.benchtime={time}", f"-test.cpu={processors}"]
    return [str(program), "-test.run=^$", *words, "-test.benchmem"]


def jmh_name(scene: str, variant: str) -> str:
    """Of the method, in two scenes the same: the second has more threads."""
    name = go_name("get_release" if scene == "parallel" else scene, variant)
    return name[0].lower() + name[1:]


def jmh_command(folder: Path, name: str, threads: int, quick: bool) -> list[str]:
    # Netty's own threads: in others its Recycler does not keep anything.
    own_threads = "-Djmh.executor=CUSTOM -Djmh.executor.class=tarn.bench.recyclers.FastThreads"
    effort = "-wi 1 -w 20ms -i 1 -r 20ms" if quick else "-wi 2 -w 400ms -i 3 -r 200ms"
    return [
        *("java", "-Djmh.ignoreLock=true", "-cp", f"{folder / 'classes'}:{folder / 'dependency'}/*", "org.openjdk.jmh.Main"),
        *("-f", "1", "-t", str(threads), *effort.split(), "-foe", "true", "-prof", "gc"),
        *("-v", "SILENT", "-rf", "json", "-rff", RESULT_FILE, "-jvmArgsAppend", own_threads, rf"\.{name}$"),
    ]


def task(options: argparse.Namespace, found: peers.Peers, language: str, scene: str, key: str, variant: str) -> Task:
    name_shown, kind = label(language, variant)
    processors = PROCESSORS.get(key)
    # In a quick session what the first objects cost does not disappear in the mean.
    reuses = not options.quick and scene != "json" and variant == RECYCLED
    environment = {}
    if language == "tarn":
        order = [str(ORDER)] if scene == "json" else []
        command, read = [str(program_of(options, scene)), variant, *order, str(options.scale)], read_own
    elif language == "go":
        name = go_name(scene, variant)
        command = go_command(found.go, name, processors or 1, options.quick)
        read = partial(read_peer, parse=parse_go, name=name, reuses=reuses)
        environment = {"RECYCLERS_ORDER": str(ORDER)}
    else:
        name = jmh_name(scene, variant)
        command = jmh_command(found.netty, name, 2 if scene == "parallel" else 1, options.quick)
        read = partial(read_peer, parse=parse_jmh, name=name, reuses=reuses)
    return Task(name_shown, kind, tuple(command), read, environment=environment, processors=processors)


def program_of(options: argparse.Namespace, scene: str) -> Path:
    return options.build_dir / "bench" / f"recyclers_{scene}"


def add_options(parser: argparse.ArgumentParser) -> None:
    mallocs.add_options(parser)
    folder = mallocs.BUILT
    parser.add_argument("--peers-dir", type=Path, default=folder, help="where Go's and Java's are built (default: build/peers)")
    parser.add_argument("--built-peers", action="store_true", help="build and fetch nothing: peers that are built already")


def cells(
    options: argparse.Namespace, found: peers.Peers, others: list[Contender], processors: int, notices: list[str]
) -> list[Cell]:
    """`others` are mallocs beside the system's."""
    result = []
    for scene, keys in SCENES.items():
        languages = {"tarn": program_of(options, scene).exists(), "go": found.go is not None, "netty": found.netty is not None}
        if not languages["tarn"] and scene != "json":
            raise ContenderError(f"{program_of(options, scene)} is missing; {BUILD_FIRST}")
        if not languages["tarn"]:
            notices.append(
                "json: simdjson was not found when the build was configured, so tarn takes no part in it "
                "(Debian: apt-get install libsimdjson-dev, then configure again)"
            )
        for key in keys:
            if PROCESSORS.get(key, 1) > processors:
                notices.append(f"{scene}: it wants two processors, and this process may use one")
                continue
            tasks = tuple(
                task(options, found, language, scene, key, variant)
                for language, here in languages.items()
                if here
                for variant in variants(language, scene)
            )
            if scene in SMALL:
                fresh, *rest = tasks
                under = (replace(fresh, contender=f"{fresh.contender}, {each.name}", malloc=each) for each in others)
                tasks = (fresh, *under, *rest)
            result.append(Cell(scene, key, tasks))
    return result


def plan(options: argparse.Namespace, inputs: Path) -> Plan:
    may_build = not options.built_peers and not options.list
    found = peers.find(options.peers_dir.resolve(), may_build, lambda line: print(line, file=sys.stderr))
    result = Plan(notices=list(found.missing))
    others = [each for each in mallocs.find(options, result.notices, LEFT_OUT) if each != SYSTEM_MALLOC]
    result.cells = cells(options, found, others, machine.processors(), result.notices)
    versions = {**peers.versions(found), "simdjson": package_version("libsimdjson-dev")}
    versions |= {each.name: version_of(each) for each in others}
    result.versions = {name: version for name, version in versions.items() if version}
    return result


def in_order(results: Results, scenes: tuple[str, ...]) -> list[str]:
    """Who has a figure in one of the scenes; recyclers first."""
    present = {run["contender"] for run in results.runs if run["scene"] in scenes}
    return [name for kind in ("tarn", "peer", "reference") for name in results.names(kind) if name in present]


def small_table(results: Results) -> Table:
    columns = {
        ", ".join(word for word in (scene, cell) if word): spread(results, scene, cell, "ns", 2)
        for scene in SMALL
        for cell in sorted(results.cells(scene))
    }
    title = "An object of 64 bytes, ns per get and give: median [lowest..highest]"
    return contender_table(results, title, columns, in_order(results, SMALL))


def counted_table(results: Results, scene: str, title: str) -> Table:
    header = {"ns": "ns", "allocations": "allocations", "bytes": "allocated bytes"}
    columns = {words: spread(results, scene, "", figure) for figure, words in header.items()}
    return contender_table(results, f"{title}: median [lowest..highest]", columns, in_order(results, (scene,)))


def tables(results: Results) -> list[Table]:
    found = [small_table(results)] if results.cells(*SMALL) else []
    if results.cells("buffer10k"):
        found.append(counted_table(results, "buffer10k", "A buffer of 10,000 bytes, filled once"))
    if results.cells("json"):
        found.append(counted_table(results, "json", "A document of some 1,000 bytes, parsed"))
        remark = "C++: simdjson's DOM; Go: encoding/json into a struct. Compare within a language only"
        found[-1].remarks.append(remark)
    return found


TARN, GO, NETTY = (recycler for _, recycler in LANGUAGES.values())
KEPT = label("tarn", BY_HAND)[0]

SUITE = Suite(
    name="recyclers",
    help="tarn's recycler beside Go's sync.Pool and Netty's Recycler",
    add_options=add_options,
    plan=plan,
    tables=tables,
    wanted=(
        *(
            Wanted(scene, TARN, "ns", limit, f"{TARN}: {place}, over {other}", other, cells=cells)
            for scene, place, cells, other, limit in (
                ("get_release", "get_release", ("",), GO, 0.35),
                ("get_release", "get_release", ("",), NETTY, 0.35),
                ("parallel", "parallel {cell}", (TWO,), GO, 0.60),
                ("burst100", "burst100", ("",), GO, 0.30),
                ("burst100", "burst100", ("",), NETTY, 1.00),
                ("cross", "cross {cell}", (ONE, TWO), GO, 0.50),
                ("buffer10k", "buffer10k", ("",), KEPT, 1.05),
            )
        ),
        *(
            Wanted(scene, TARN, "allocations", NO_ALLOCATION, f"{TARN}: {scene}, allocations per operation")
            for scene in COUNTED
        ),
    ),
    compared={scene: (("ns",), False) for scene in SMALL},
    page="recycler-benchmarks.md",
    moment=", load {load} at the start",
)
