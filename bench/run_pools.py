#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures tarn's typed pools beside other pools and mallocs. See docs/pools-benchmarks.md.

run_pools.py --build-dir build/bench         everything, 3 rounds, and writes docs/pools-benchmarks.md
run_pools.py --quick                         a small part of the work, 1 round: does everything run?
run_pools.py --scenes pairs,ring -n 7        some scenes, more rounds; no file is written
run_pools.py --contenders 'tarn*,bare*'      some contenders
run_pools.py --from-json r.json --markdown docs/pools-benchmarks.md     the tables again without measuring
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers import pools as peers  # noqa: E402  (the path is set above)
from peers.contender import ContenderError, package_version, version_of  # noqa: E402
from report import markdown, pool_charts, pool_results, pool_tables  # noqa: E402
from report.charts import ChartsUnavailable, pyplot  # noqa: E402
from report.pool_results import PoolResults  # noqa: E402
from runner import machine, pools  # noqa: E402
from runner.launch import Launcher  # noqa: E402
from runner.progress import Progress  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "docs" / "pools-benchmarks.md"
BEGIN = "<!-- results: begin (written by bench/run_pools.py; do not edit) -->"


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run_pools.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "--scenes", metavar="NAMES", help=f"only these, comma-separated: {', '.join(pools.SCENES)}"
    )
    what.add_argument(
        "--contenders",
        metavar="PATTERNS",
        help="only those that match one of these comma-separated shell patterns",
    )
    how = parser.add_argument_group("how")
    how.add_argument("-n", "--rounds", type=int, metavar="ROUNDS", help="default 3; 1 with --quick")
    how.add_argument("--quick", action="store_true", help="a small part of the work: no figures to quote")
    how.add_argument("--seed", type=int, default=1, help="of the random order (default 1)")
    how.add_argument(
        "--touch",
        type=int,
        metavar="MIB",
        help="memory touched and released before every timed run (default 512; 16 with --quick)",
    )
    how.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="for one run (default 60)")
    how.add_argument("--build-dir", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    how.add_argument("--tarn", type=Path, metavar="LIB", help="libtarn.so (default: that of the build)")
    out = parser.add_argument_group("output, beside the tables on standard output")
    out.add_argument("--json", type=Path, metavar="FILE", help="all raw results")
    out.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="the tables, between the file's markers (default: docs/pools-benchmarks.md if everything was "
        "measured, else none)",
    )
    out.add_argument("--svg", type=Path, metavar="DIR", help="a chart: pools-threads.svg")
    out.add_argument(
        "--from-json", type=Path, metavar="FILE", help="measure nothing; show an earlier session"
    )
    out.add_argument("--list", action="store_true", help="scenes and contenders, and what is missing")
    options = parser.parse_args(words)
    options.scenes = options.scenes.split(",") if options.scenes else list(pools.SCENES)
    unknown = [name for name in options.scenes if name not in pools.SCENES]
    if unknown:
        parser.error(f"unknown scene {', '.join(unknown)}; there are: {', '.join(pools.SCENES)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("-n must be at least 1")
    whole = options.scenes == list(pools.SCENES) and not (
        options.contenders or options.quick or options.from_json
    )
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.touch = options.touch if options.touch is not None else (16 if options.quick else 512)
    if options.touch < 0 or options.limit < 1:
        parser.error("--touch must not be negative and --limit at least 1")
    options.markdown = options.markdown or (PUBLISHED if whole else None)
    options.build_dir = options.build_dir.resolve()
    return options


def describe(options: argparse.Namespace, todo: list[pools.Cell], notices: list[str]) -> PoolResults:
    everyone = {each.label: each for cell in todo for each in cell.contenders}
    libraries = {each.malloc.name: each.malloc for each in everyone.values()}
    versions = {name: version_of(library) for name, library in libraries.items()}
    versions |= {library: package_version(package) for library, (package, _) in peers.LIBRARIES.items()}
    return PoolResults(
        machine=machine.describe(),
        protocol={
            "rounds": options.rounds,
            "quick": options.quick,
            "seed": options.seed,
            "touch_mib": options.touch,
            "order": "random in every cell of every round",
        },
        kinds={name: each.kind for name, each in everyone.items()},
        versions={name: version for name, version in versions.items() if version},
        notices=notices,
    )


def show_list(todo: list[pools.Cell], notices: list[str]) -> int:
    for cell in todo:
        print(f"{cell.scene} {cell.key}".rstrip())
        for each in cell.contenders:
            print(f"    {each.label} ({each.kind})")
    for notice in notices:
        print(f"note: {notice}")
    return 0


def measure(options: argparse.Namespace, todo: list[pools.Cell], results: PoolResults) -> bool:
    """Fills `results`. Returns False after an interrupt; `results` then has the runs that were measured until then."""
    for notice in results.notices:
        print(f"note: {notice}", file=sys.stderr)
    progress = Progress(options.rounds * sum(len(cell.contenders) for cell in todo))
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tarn-bench") as scratch:
        launcher = Launcher(
            options.build_dir / "bench" / "bench_launch", Path(scratch), options.touch, options.limit
        )
        scale = pools.QUICK_SCALE if options.quick else pools.FULL_SCALE
        try:
            pools.PoolSession(launcher, results, options.seed, scale).measure(todo, options.rounds, progress)
        except KeyboardInterrupt:
            results.notices.append("stopped before the end; what follows is what was measured until then")
            return False
        finally:
            progress.finish()
            results.protocol["minutes"] = round((time.monotonic() - start) / 60, 1)
    return True


def deliver(options: argparse.Namespace, results: PoolResults, complete: bool) -> None:
    for table in pool_tables.all_tables(results):
        print(table.text())
    for line in pool_tables.summary(results):
        print(line)
    if options.json:
        results.save(options.json)
        print(f"raw results: {options.json}", file=sys.stderr)
    if options.markdown and complete:
        markdown.replace_block(options.markdown, pool_tables.generated(results), BEGIN)
        print(f"tables: {options.markdown}", file=sys.stderr)
    if options.svg:
        print(f"chart: {pool_charts.draw_threads(results, options.svg)}", file=sys.stderr)


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    complete = True
    try:
        if options.from_json:
            results = pool_results.load(options.from_json)
        else:
            notices: list[str] = []
            todo = pools.cells(options.scenes, options.build_dir, options.tarn, options.contenders, notices)
            if not todo:
                raise ContenderError(f'no contender matches "{options.contenders}"; --list shows them')
            if options.list:
                return show_list(todo, notices)
            if options.svg:
                pyplot()  # fails now if a library is missing, not after the session
            results = describe(options, todo, notices)
            complete = measure(options, todo, results)
        deliver(options, results, complete)
    except (ContenderError, ChartsUnavailable, OSError, ValueError) as error:
        print(f"run_pools.py: {error}", file=sys.stderr)
        return 2
    return 130 if not complete else 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
