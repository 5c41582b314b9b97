#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures tarn beside its peers: single calls, allocator workloads, real programs. See docs/benchmarks.md.

run.py --build-dir build/bench                    everything, 5 rounds
run.py --quick                                    small work, 2 rounds: does everything run?
run.py --rows 'larson*,real' -n 11 --no-micro     some rows, more rounds
run.py --json results.json --svg charts --markdown docs/benchmarks.md
run.py --from-json results.json --svg charts      draw again without measuring
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers import contender as peers  # noqa: E402  (the path is set above)
from peers import crates  # noqa: E402
from report import charts, markdown, results as result_files, tables  # noqa: E402
from report.results import Results  # noqa: E402
from runner import machine, rows as row_lists  # noqa: E402
from runner.launch import Launcher  # noqa: E402
from runner.micro import MicroSession  # noqa: E402
from runner.progress import Progress  # noqa: E402
from runner.real_programs import real_rows  # noqa: E402
from runner.session import Session, check_preloads, usable_rows  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
QUICK_SCALE = 50  # per mille of the full work


class UsageError(Exception):
    """The options ask for something impossible; the message says what to do."""


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "--rows",
        metavar="PATTERNS",
        help="only rows (or groups: workload, real) that match one of "
        "these comma-separated shell patterns",
    )
    what.add_argument("--contenders", metavar="NAMES", help="only these, comma-separated")
    what.add_argument(
        "--with",
        dest="extra",
        action="append",
        default=[],
        metavar="NAME=LIB[,VAR=VALUE...]",
        help="another contender, or one with settings of its own",
    )
    what.add_argument(
        "--peers-from-crates",
        action="store_true",
        help="also newer mimalloc, snmalloc and jemalloc, fetched by cargo and built in build/peers",
    )
    what.add_argument(
        "--threads",
        nargs="?",
        const="",
        metavar="T1,T2,...",
        help="also the scaling table, for these numbers of threads (default: up to the processors)",
    )
    what.add_argument("--no-micro", action="store_true", help="leave out the single calls")
    what.add_argument("--micro-only", action="store_true", help="nothing but the single calls")
    how = parser.add_argument_group("how")
    how.add_argument("-n", "--rounds", type=int, metavar="ROUNDS", help="rounds (default 5; 2 with --quick)")
    how.add_argument(
        "--quick", action="store_true", help="a twentieth of the work, 2 rounds: no figures to quote"
    )
    how.add_argument("--seed", type=int, default=1, help="of the random order (default 1)")
    how.add_argument(
        "--touch",
        type=int,
        default=512,
        metavar="MIB",
        help="memory touched and released before every timed run (default 512)",
    )
    how.add_argument("--limit", type=int, default=120, metavar="SECONDS", help="for one run (default 120)")
    how.add_argument("--build-dir", type=Path, help="where the programs were built (default: build/bench)")
    how.add_argument("--tarn", type=Path, metavar="LIB", help="libtarn.so (default: that of the build)")
    out = parser.add_argument_group("output, beside the tables on standard output")
    out.add_argument("--json", type=Path, metavar="FILE", help="all raw results")
    out.add_argument("--svg", type=Path, metavar="DIR", help="charts: means.svg, time.svg, rss.svg")
    out.add_argument("--markdown", type=Path, metavar="FILE", help="the tables, between the file's markers")
    out.add_argument(
        "--from-json", type=Path, metavar="FILE", help="measure nothing; show an earlier session"
    )
    out.add_argument(
        "--list", action="store_true", help="rows and contenders of this machine, and what is missing"
    )
    options = parser.parse_args(words)
    if options.rounds is not None and options.rounds < 1:
        parser.error("-n must be at least 1")
    if options.touch < 0 or options.limit < 1:
        parser.error("--touch must not be negative and --limit at least 1")
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.build_dir = (options.build_dir or ROOT / "build" / "bench").resolve()
    return options


def find_contenders(options: argparse.Namespace, notices: list[str]) -> list[peers.Contender]:
    """tarn first, then the peers, then the twin (the first contender once more), which shows the noise."""
    found, missing = peers.installed_peers()
    library = peers.find_subject(options.build_dir, options.tarn)
    if library:
        found.insert(0, peers.Contender(peers.SUBJECT, library))
    else:
        missing.append(
            f"tarn: no lib/libtarn.so in {options.build_dir} or beside it; build it or name it with --tarn"
        )
    if options.peers_from_crates:
        found += crates.build_all(ROOT / "build" / "peers", lambda line: print(line, file=sys.stderr))
    extras = [peers.parse_extra(text) for text in options.extra]
    found += extras
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise UsageError(f"two contenders share a name: {', '.join(sorted(names))}")
    # A contender that --with names is measured even if --contenders does not name it.
    chosen = peers.select(found, options.contenders)
    chosen += [each for each in extras if each not in chosen]
    if not chosen:
        raise UsageError("--contenders names no contender; --list shows them")
    notices += missing
    return [*chosen, peers.twin(chosen[0])]


def all_rows(options: argparse.Namespace) -> list[row_lists.Row]:
    scale = QUICK_SCALE if options.quick else 1000
    programs = options.build_dir / "bench"
    return row_lists.select_rows([*row_lists.workload_rows(programs, scale), *real_rows()], options.rows)


def scaling_rows(options: argparse.Namespace) -> list[row_lists.Row]:
    if options.threads is None:
        return []
    counts = row_lists.thread_counts(machine.processors())
    if options.threads:
        try:
            counts = sorted({int(word) for word in options.threads.split(",")})
        except ValueError:
            counts = [0]
        if counts[0] < 1:
            raise UsageError(f'--threads takes numbers from 1, like 1,2,4, not "{options.threads}"')
    scale = QUICK_SCALE if options.quick else 1000
    return row_lists.scaling_rows(options.build_dir / "bench", scale, counts)


def show_list(options: argparse.Namespace) -> int:
    notices: list[str] = []
    contenders = find_contenders(options, notices)
    print("Rows:")
    for row in all_rows(options):
        reason = row.missing()
        print(f"  {row.name:16} {row.group:9} {row.note}" + (f"  [{reason}]" if reason else ""))
    print("Contenders:")
    for each in contenders:
        print(f"  {each.name:16} {each.library or 'the system malloc'} {peers.version_of(each)}".rstrip())
    for notice in notices:
        print(f"note: {notice}")
    return 0


def start_results(options: argparse.Namespace) -> tuple[Results, list[peers.Contender]]:
    results = Results(machine=machine.describe())
    contenders = find_contenders(options, results.notices)
    results.protocol = {
        "rounds": options.rounds,
        "quick": options.quick,
        "seed": options.seed,
        "touch_mib": options.touch,
        "order": "random in every row of every round",
    }
    results.contenders = [
        {
            "name": each.name,
            "library": each.library.name if each.library else "",
            "version": peers.version_of(each),
            "twin_of": each.twin_of,
            "peer": each.is_peer,
            "settings": dict(each.environment),
        }
        for each in contenders
    ]
    return results, contenders


def measure(
    options: argparse.Namespace, results: Results, contenders: list[peers.Contender], scratch: Path
) -> None:
    """Fills `results`; after an interrupt it has the runs that were measured until then."""
    program = options.build_dir / "bench" / "bench_launch"
    if not program.exists():
        raise UsageError(
            f"{program} is missing; build the benchmarks first (./dev bench does, or cmake --preset bench "
            "and cmake --build --preset bench)"
        )
    launcher = Launcher(program, scratch, options.touch, options.limit)
    inputs = scratch / "inputs"
    inputs.mkdir()
    asked = [] if options.micro_only else all_rows(options)
    if options.rows and not asked:
        raise UsageError(f'no row matches "{options.rows}"; --list shows them')
    selected = check_preloads(usable_rows(asked, results, inputs), contenders, results)
    scaling = usable_rows([] if options.micro_only else scaling_rows(options), results, inputs)
    for notice in results.notices:
        print(f"note: {notice}", file=sys.stderr)
    results.rows = [{"name": row.name, "group": row.group, "note": row.note} for row in selected]
    originals = [each for each in contenders if not each.twin_of]
    micro_runs = 0 if options.no_micro else options.rounds * len(originals) * 2
    progress = Progress(
        options.rounds * (len(selected) * len(contenders) + len(scaling) * len(originals)) + micro_runs
    )
    try:
        if micro_runs:
            MicroSession(launcher, options.build_dir / "bench", results, options.seed, options.quick).measure(
                originals, options.rounds, progress
            )
        Session(launcher, contenders, results, options.seed).measure(
            selected, options.rounds, results.runs, progress
        )
        Session(launcher, originals, results, options.seed).measure(
            scaling, options.rounds, results.scaling, progress
        )
    finally:
        progress.finish()


def deliver(options: argparse.Namespace, results: Results) -> None:
    """Prints the tables and writes the files that the options name."""
    for table in tables.all_tables(results):
        print(table.text())
    for line in tables.summary(results):
        print(line)
    if options.json:
        results.save(options.json)
        print(f"raw results: {options.json}", file=sys.stderr)
    if options.markdown:
        markdown.update(options.markdown, results)
        print(f"tables: {options.markdown}", file=sys.stderr)
    if options.svg:
        print(f"charts: {', '.join(map(str, charts.draw(results, options.svg)))}", file=sys.stderr)


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    interrupted = False
    try:
        if options.list:
            return show_list(options)
        if options.from_json:
            results = result_files.load(options.from_json)
        else:
            if options.svg:
                charts.pyplot()  # fails now if a library is missing, not after an hour
            results, contenders = start_results(options)
            start = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="tarn-bench") as scratch:
                try:
                    measure(options, results, contenders, Path(scratch))
                except KeyboardInterrupt:
                    interrupted = True
                    results.notices.append(
                        "stopped before the end; what follows is what was measured until then"
                    )
            results.protocol["minutes"] = round((time.monotonic() - start) / 60, 1)
        deliver(options, results)
    except KeyboardInterrupt:
        return 130
    except (UsageError, peers.ContenderError, charts.ChartsUnavailable, OSError, ValueError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    return 130 if interrupted else 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
