#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures tarn beside its peers. See benchmarks.md, pools-benchmarks.md and recycler-benchmarks.md in docs/explanation/.

run.py [SUITE] [OPTION…]                  a suite is malloc (the default), pools, recyclers, buffers or profiler
run.py pools --help                       the options of a suite
run.py recyclers --quick                  small work: does everything run?
run.py --scenes 'larson*,real' -n 11      some scenes or rows, more rounds
run.py --json results.json --svg charts --markdown docs/explanation/benchmarks.md
run.py --from-json results.json --svg charts      tables and charts again without measuring

Exit status: 0 if every run gave a figure, else 1; 2 for a request that cannot be carried out; 130 after Ctrl-C, which prints what
was measured until then.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers.contender import ContenderError  # noqa: E402  (the path is set above)
from report import charts, results as result_files  # noqa: E402
from report.results import Results  # noqa: E402
from report.tables import replace_block  # noqa: E402
from runner import machine  # noqa: E402
from runner.launch import Launcher  # noqa: E402
from runner.progress import Progress  # noqa: E402
from runner.selection import Patterns  # noqa: E402
from runner.session import Cell, Session, select  # noqa: E402
from suites import buffers, malloc, pools, profiler, recyclers  # noqa: E402
from suites.suite import BUILD_FIRST, Suite  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SUITES = {module.SUITE.name: module.SUITE for module in (malloc, pools, recyclers, buffers, profiler)}


def parse_arguments(suite: Suite, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"run.py {suite.name}",
        description=f"Measures {suite.help}.\n\n{__doc__.partition(chr(10) * 2)[2]}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, words_of_help in (
        ("--scenes", "only scenes, or rows of them, that match one of these comma-separated shell patterns"),
        ("--contenders", "only those that match one of these"),
    ):
        parser.add_argument(name, metavar="PATTERNS", help=words_of_help)
    suite.add_options(parser)
    parser.add_argument("--quick", action="store_true", help="a small part of the work: no figures to quote")
    for names, what in (
        (("-n", "--rounds"), "rounds"),
        (("--scale",), "work per mille"),
        (("--touch",), "MiB of memory touched and released before every timed run"),
    ):
        default, quick = getattr(suite, names[-1].removeprefix("--"))
        parser.add_argument(*names, type=int, metavar="N", help=f"{what} (default {default}; {quick} with --quick)")
    parser.add_argument("--seed", type=int, default=1, help="of the random order (default 1)")
    parser.add_argument("--limit", type=int, default=suite.limit, metavar="SECONDS", help=f"for one run (default {suite.limit})")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all raw results")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables, between the file's markers")
    if suite.draw:
        parser.add_argument("--svg", type=Path, metavar="DIR", help="charts")
    parser.add_argument("--from-json", type=Path, metavar="FILE", help="measure nothing; show an earlier session")
    parser.add_argument("--list", action="store_true", help="scenes and contenders of this machine, and what is missing")
    options = parser.parse_args(words)
    for name in ("rounds", "scale", "touch"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(suite, name)[options.quick])
    if options.rounds < 1 or options.scale < 1 or options.touch < 0 or options.limit < 1:
        parser.error("-n, --scale and --limit must be at least 1, and --touch not negative")
    options.svg = options.svg if suite.draw else None
    options.build_dir = options.build_dir.resolve()
    return options


def say(line: str) -> None:
    print(line, file=sys.stderr)


def show_list(cells: list[Cell], notices: list[str]) -> None:
    for cell in cells:
        print(f"{cell.name:24} {cell.note}".rstrip())
        print("    " + ", ".join(f"{task.contender} ({task.kind})" for task in cell.tasks))
    for notice in notices:
        print(f"note: {notice}")


def measure(options: argparse.Namespace, cells: list[Cell], results: Results, scratch: Path) -> bool:
    """Fills `results`. Returns False after an interrupt; `results` then has the runs that were measured until then."""
    program = options.build_dir / "bench" / "bench_launch"
    if not program.exists():
        raise ContenderError(f"{program} is missing; {BUILD_FIRST}")
    session = Session(Launcher(program, scratch, options.touch, options.limit), results, options.seed)
    try:
        ready = session.prepare(cells)
        for notice in results.notices:
            say(f"note: {notice}")
        progress = Progress(sum((1 if cell.once else options.rounds) * len(cell.tasks) for cell in ready))
        session.measure(ready, options.rounds, progress)
        return True
    except KeyboardInterrupt:
        results.notices.append("stopped before the end; what follows is what was measured until then")
        return False


def start_results(suite: Suite, options: argparse.Namespace, cells: list[Cell]) -> Results:
    tasks = [task for cell in cells for task in cell.tasks]
    protocol = {name: getattr(options, name) for name in ("rounds", "quick", "scale", "seed", "touch")}
    protocol["settings"] = {task.contender: dict(task.malloc.environment) for task in tasks if task.malloc.environment}
    return Results(suite.name, machine.describe(), protocol, {task.contender: task.kind for task in tasks})


def report(suite: Suite, results: Results) -> str:
    """What stands between the markers of a page."""
    versions = ", ".join(f"{name} {version}".strip() for name, version in results.versions.items())
    lines = [f"{machine.say(results.machine)}. {results.rounds()} rounds, {results.machine.get('date', '')}.", f"Versions: {versions}."]
    notes = [f"- {notice}" for notice in results.notices]
    for each in results.failures:
        place = f"{each['scene']} {each['cell']}".rstrip()
        notes.append(f"- FAILED: {place} under {each['contender']}, round {each['round'] + 1}: {each['reason']}")
    if results.protocol.get("quick"):
        notes.append("- a quick session, with a small part of the work: no figures to quote")
    return "\n\n".join([*lines, *(["\n".join(notes)] if notes else []), *suite.tables(results)])


def run_suite(suite: Suite, options: argparse.Namespace) -> int:
    complete = True
    if options.from_json:
        results = result_files.load(options.from_json, suite.name)
    else:
        with tempfile.TemporaryDirectory(prefix="tarn-bench") as folder:
            inputs = Path(folder) / "inputs"
            inputs.mkdir()
            plan = suite.plan(options, inputs)
            cells = select(plan.cells, Patterns(options.scenes), Patterns(options.contenders))
            if options.list:
                show_list(cells, plan.notices)
                return 0
            if options.svg:
                charts.pyplot()  # fails now if a library is missing, not after an hour
            results = start_results(suite, options, cells)
            results.versions, results.notices = plan.versions, plan.notices
            complete = measure(options, cells, results, Path(folder))
    text = report(suite, results)
    print("\n\n".join([text, *suite.details(results)]))
    if options.json:
        results.save(options.json)
    if options.markdown:
        replace_block(options.markdown, text)
    if options.svg:
        say(f"charts: {', '.join(map(str, suite.draw(results, options.svg)))}")
    return 130 if not complete else 1 if results.failures else 0


def main(words: list[str]) -> int:
    name, rest = (words[0], words[1:]) if words and not words[0].startswith("-") else ("malloc", words)
    if name not in SUITES:
        say(f"run.py: there is no suite {name}; there are: {', '.join(SUITES)}")
        return 2
    try:
        return run_suite(SUITES[name], parse_arguments(SUITES[name], rest))
    except (ContenderError, charts.ChartsUnavailable, OSError, ValueError) as error:
        say(f"run.py: {error}")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
