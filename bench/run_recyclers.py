#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures tarn's recycler beside Go's sync.Pool and Netty's Recycler. See docs/recycler-benchmarks.md.

run_recyclers.py --build-dir build/bench     everything, 5 rounds, and writes docs/recycler-benchmarks.md
run_recyclers.py --quick                     a small part of the work, 1 round: does everything run?
run_recyclers.py --scenes cross -n 9         some scenes, more rounds; no file is written
run_recyclers.py --contenders 'tarn*,Go*'    some contenders
run_recyclers.py --from-json r.json --markdown docs/recycler-benchmarks.md   the tables again without measuring
"""

import argparse
import fnmatch
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers import recyclers as peers  # noqa: E402  (the path is set above)
from peers.contender import ContenderError, package_version  # noqa: E402
from report import markdown, recycler_results, recycler_tables  # noqa: E402
from report.recycler_results import RecyclerResults  # noqa: E402
from runner import machine, recyclers  # noqa: E402
from runner.progress import Progress  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "docs" / "recycler-benchmarks.md"
BEGIN = "<!-- results: begin (written by bench/run_recyclers.py; do not edit) -->"


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run_recyclers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "--scenes", metavar="NAMES", help=f"only these, comma-separated: {', '.join(recyclers.SCENES)}"
    )
    what.add_argument(
        "--contenders",
        metavar="PATTERNS",
        help="only those that match one of these comma-separated shell patterns",
    )
    how = parser.add_argument_group("how")
    how.add_argument("-n", "--rounds", type=int, metavar="ROUNDS", help="default 5; 1 with --quick")
    how.add_argument("--quick", action="store_true", help="a small part of the work: no figures to quote")
    how.add_argument("--seed", type=int, default=1, help="of the random order (default 1)")
    how.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="for one run (default 60)")
    how.add_argument("--build-dir", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    how.add_argument(
        "--peers-dir",
        type=Path,
        default=ROOT / "build" / "peers",
        help="where the peers are built (default: build/peers)",
    )
    how.add_argument(
        "--built-peers", action="store_true", help="build and fetch nothing: peers that are built already"
    )
    out = parser.add_argument_group("output, beside the tables on standard output")
    out.add_argument("--json", type=Path, metavar="FILE", help="all raw results")
    out.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="the tables, between the file's markers (default: docs/recycler-benchmarks.md if everything was "
        "measured, else none)",
    )
    out.add_argument(
        "--from-json", type=Path, metavar="FILE", help="measure nothing; show an earlier session"
    )
    out.add_argument("--list", action="store_true", help="scenes and contenders, and what is missing")
    options = parser.parse_args(words)
    options.scenes = options.scenes.split(",") if options.scenes else list(recyclers.SCENES)
    unknown = [name for name in options.scenes if name not in recyclers.SCENES]
    if unknown:
        parser.error(f"unknown scene {', '.join(unknown)}; there are: {', '.join(recyclers.SCENES)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("-n must be at least 1")
    if options.limit < 1:
        parser.error("--limit must be at least 1")
    options.whole = options.scenes == list(recyclers.SCENES) and not (
        options.contenders or options.quick or options.from_json
    )
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.build_dir = options.build_dir.resolve()
    options.peers_dir = options.peers_dir.resolve()
    return options


def matcher(patterns: str | None):
    wanted = [pattern.strip() for pattern in (patterns or "*").split(",") if pattern.strip()]
    return lambda label: any(fnmatch.fnmatch(label, pattern) for pattern in wanted)


def say(line: str) -> None:
    print(line, file=sys.stderr)


def find_cells(options: argparse.Namespace, notices: list[str]) -> tuple[list[recyclers.Cell], peers.Peers]:
    found = peers.find(options.peers_dir, not options.built_peers and not options.list, say)
    notices += found.missing
    effort = recyclers.QUICK if options.quick else recyclers.FULL
    catalogue = recyclers.Catalogue(options.build_dir, found, effort, matcher(options.contenders))
    return recyclers.cells(options.scenes, catalogue, machine.processors(), notices), found


def describe(
    options: argparse.Namespace, todo: list[recyclers.Cell], found: peers.Peers, notices: list[str]
) -> RecyclerResults:
    versions = peers.versions(found)
    simdjson = package_version("libsimdjson-dev")
    return RecyclerResults(
        machine=machine.describe(),
        protocol={
            "rounds": options.rounds,
            "quick": options.quick,
            "seed": options.seed,
            "order": "random in every round",
        },
        kinds={task.label: task.kind for cell in todo for task in cell.tasks},
        versions=versions | ({"simdjson": simdjson} if simdjson else {}),
        notices=notices,
    )


def show_list(todo: list[recyclers.Cell], notices: list[str]) -> int:
    for cell in todo:
        print(f"{cell.scene} {cell.key}".rstrip())
        for task in cell.tasks:
            print(f"    {task.label} ({task.kind})")
    for notice in notices:
        print(f"note: {notice}")
    return 0


def measure(options: argparse.Namespace, todo: list[recyclers.Cell], results: RecyclerResults) -> bool:
    """Fills `results`. Returns False after an interrupt; `results` then has the runs that were measured until then."""
    for notice in results.notices:
        say(f"note: {notice}")
    progress = Progress(options.rounds * sum(len(cell.tasks) for cell in todo))
    start = time.monotonic()
    try:
        session = recyclers.RecyclerSession(results, options.seed, options.limit)
        session.measure(todo, options.rounds, progress)
    except KeyboardInterrupt:
        results.notices.append("stopped before the end; what follows is what was measured until then")
        return False
    finally:
        progress.finish()
        results.protocol["minutes"] = round((time.monotonic() - start) / 60, 1)
    return True


def page_of(options: argparse.Namespace, results: RecyclerResults) -> Path | None:
    """The file for the tables, or None: without a peer, or with failures, the published tables are not replaced."""
    if options.markdown or not options.whole:
        return options.markdown
    if results.notices or results.failures:
        say(f"{PUBLISHED} is left as it is: not everything ran. --markdown {PUBLISHED} writes it all the same")
        return None
    return PUBLISHED


def deliver(options: argparse.Namespace, results: RecyclerResults, complete: bool) -> None:
    for table in recycler_tables.all_tables(results):
        print(table.text())
    for line in recycler_tables.summary(results):
        print(line)
    if options.json:
        results.save(options.json)
        say(f"raw results: {options.json}")
    page = page_of(options, results) if complete else None
    if page:
        markdown.replace_block(page, recycler_tables.generated(results), BEGIN)
        say(f"tables: {page}")


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    complete = True
    try:
        if options.from_json:
            results = recycler_results.load(options.from_json)
        else:
            notices: list[str] = []
            todo, found = find_cells(options, notices)
            if not todo:
                raise ContenderError(f'no contender matches "{options.contenders}"; --list shows them')
            if options.list:
                return show_list(todo, notices)
            results = describe(options, todo, found, notices)
            complete = measure(options, todo, results)
        deliver(options, results, complete)
    except (ContenderError, OSError, ValueError) as error:
        print(f"run_recyclers.py: {error}", file=sys.stderr)
        return 2
    return 130 if not complete else 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
