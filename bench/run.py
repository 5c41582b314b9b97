#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures tarn beside its peers. See benchmarks.md, pools-benchmarks.md and recycler-benchmarks.md in docs/explanation/.

run.py [SUITE] [OPTION…]                  a suite is malloc (the default), pools, recyclers, buffers, profiler, advice,
                                          jemalloc or scaling
run.py pools --help                       the options of a suite
run.py recyclers --quick                  small work: does everything run?
run.py --scenes 'larson*,real' -n 11      some scenes or rows, more rounds
run.py --json results.json --svg charts --markdown docs/explanation/benchmarks.md
run.py --from-json results.json --svg charts      tables and charts again without measuring

Exit status: 0 if every run gave a figure and, of the suites buffers and profiler, no goal was missed, else 1; 2 for a
request that cannot be carried out; 130 after Ctrl-C, which prints what was measured until then.
"""

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from advice import command as advice  # noqa: E402  (the path is set above)
from drop_in import command as drop_in  # noqa: E402
from peers.contender import ContenderError  # noqa: E402
from report import charts, markdown, results as result_files  # noqa: E402
from report.results import Results  # noqa: E402
from runner import machine  # noqa: E402
from runner.launch import Launcher  # noqa: E402
from runner.progress import Progress  # noqa: E402
from runner.selection import Patterns  # noqa: E402
from runner.session import Cell, Session, select  # noqa: E402
from scaling import command as scaling  # noqa: E402
from suites import buffers, malloc, pools, profiler, recyclers  # noqa: E402
from suites.suite import BUILD_FIRST, Suite  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SUITES = {module.SUITE.name: module.SUITE for module in (malloc, pools, recyclers, buffers, profiler)}

OTHERS = {"advice": advice.main, "jemalloc": drop_in.main, "scaling": scaling.main}


def parse_arguments(suite: Suite, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"run.py {suite.name}",
        description=f"Measures {suite.help}.\n\n{__doc__.partition(chr(10) * 2)[2]}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        *("--scenes", "--rows", "--only"),
        metavar="PATTERNS",
        help="only scenes, or rows of them, that match one of these comma-separated shell patterns",
    )
    what.add_argument("--contenders", metavar="PATTERNS", help="only those that match one of these")
    suite.add_options(what)
    how = parser.add_argument_group("how")
    how.add_argument("-n", "--rounds", type=int, help=f"default {suite.rounds[0]}; {suite.rounds[1]} with --quick")
    how.add_argument("--quick", action="store_true", help="a small part of the work: no figures to quote")
    how.add_argument("--scale", type=int, help=f"work per mille (default {suite.scale[0]}; {suite.scale[1]} with --quick)")
    how.add_argument("--seed", type=int, default=1, help="of the random order (default 1)")
    how.add_argument(
        "--touch",
        type=int,
        metavar="MIB",
        help="memory touched and released before every timed run "
        f"(default {suite.touch[0]}; {suite.touch[1]} with --quick)",
    )
    how.add_argument("--limit", type=int, default=suite.limit, metavar="SECONDS", help=f"for one run (default {suite.limit})")
    how.add_argument("--build-dir", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    out = parser.add_argument_group("output, beside the tables on standard output")
    out.add_argument("--json", type=Path, metavar="FILE", help="all raw results")
    page = f" (default: docs/explanation/{suite.page} if everything was measured, else none)" if suite.page else ""
    out.add_argument("--markdown", type=Path, metavar="FILE", help=f"the tables, between the file's markers{page}")
    if suite.draw:
        out.add_argument("--svg", type=Path, metavar="DIR", help="charts")
    out.add_argument("--from-json", type=Path, metavar="FILE", help="measure nothing; show an earlier session")
    out.add_argument("--list", action="store_true", help="scenes and contenders of this machine, and what is missing")
    options = parser.parse_args(words)
    for name in ("rounds", "scale", "touch"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(suite, name)[options.quick])
    if options.rounds < 1 or options.scale < 1:
        parser.error("-n and --scale must be at least 1")
    if options.touch < 0 or options.limit < 1:
        parser.error("--touch must not be negative and --limit at least 1")
    options.svg = options.svg if suite.draw else None
    options.build_dir = options.build_dir.resolve()
    part = options.quick or options.scale != suite.scale[0] or options.scenes or options.contenders
    options.whole = not part and not options.from_json
    return options


def say(line: str) -> None:
    print(line, file=sys.stderr)


def show_list(cells: list[Cell], notices: list[str]) -> None:
    """Cells that have the same contenders share a list of them."""

    def contenders(cell: Cell) -> list[str]:
        return [f"    {task.contender} ({task.kind}) {task.malloc.library or ''}".rstrip() for task in cell.tasks]

    for who, group in itertools.groupby(cells, key=contenders):
        for cell in group:
            print(f"{cell.name:24} {cell.note}".rstrip())
        print("\n".join(who))
    for notice in notices:
        print(f"note: {notice}")


def measure(options: argparse.Namespace, cells: list[Cell], results: Results, scratch: Path) -> bool:
    """Fills `results`. Returns False after an interrupt; `results` then has the runs that were measured until then."""
    program = options.build_dir / "bench" / "bench_launch"
    if not program.exists():
        raise ContenderError(f"{program} is missing; {BUILD_FIRST}")
    start = time.monotonic()
    session = Session(Launcher(program, scratch, options.touch, options.limit), results, options.seed)
    progress = Progress(0)
    try:
        ready = session.prepare(cells)
        for notice in results.notices:
            say(f"note: {notice}")
        progress = Progress(options.rounds * sum(len(cell.tasks) for cell in ready))
        session.measure(ready, options.rounds, progress)
        return True
    except KeyboardInterrupt:
        results.notices.append("stopped before the end; what follows is what was measured until then")
        return False
    finally:
        progress.finish()
        results.protocol["minutes"] = round((time.monotonic() - start) / 60, 1)


def start_results(suite: Suite, options: argparse.Namespace, cells: list[Cell]) -> Results:
    tasks = [task for cell in cells for task in cell.tasks]
    return Results(
        suite.name,
        machine=machine.describe(),
        protocol={
            "rounds": options.rounds,
            "quick": options.quick,
            "scale": options.scale,
            "seed": options.seed,
            "touch_mib": options.touch,
            "order": "random in every cell of every round",
            "settings": {task.contender: dict(task.malloc.environment) for task in tasks if task.malloc.environment},
        },
        kinds={task.contender: task.kind for task in tasks},
    )


def page_of(suite: Suite, options: argparse.Namespace, results: Results) -> Path | None:
    """The file for the tables, or None: without a peer, or with failures, the published tables are not replaced."""
    if options.markdown or not options.whole or not suite.page:
        return options.markdown
    page = ROOT / "docs/explanation" / suite.page
    if results.notices or results.failures:
        say(f"{page} is left as it is: not everything ran. --markdown {page} writes it all the same")
        return None
    return page


def deliver(suite: Suite, options: argparse.Namespace, results: Results, complete: bool) -> None:
    """Prints the tables and writes the files that the options name."""
    for table in suite.all_tables(results):
        print(table.text())
    for line in suite.summary(results):
        print(line)
    if options.json:
        results.save(options.json)
        say(f"raw results: {options.json}")
    page = page_of(suite, options, results) if complete else None
    if page:
        markdown.replace_block(page, suite.generated(results))
        say(f"tables: {page}")
    if options.svg:
        say(f"charts: {', '.join(map(str, suite.draw(results, options.svg)))}")


def run_suite(suite: Suite, options: argparse.Namespace) -> int:
    if options.from_json:
        results, complete = result_files.load(options.from_json, suite.name), True
    else:
        with tempfile.TemporaryDirectory(prefix="tarn-bench") as folder:
            inputs = Path(folder) / "inputs"
            inputs.mkdir()
            plan = suite.plan(options, inputs)
            cells = select(plan.cells, Patterns(options.scenes), Patterns(options.contenders), suite.always)
            if options.list:
                show_list(cells, plan.notices)
                return 0
            if options.svg:
                charts.pyplot()  # fails now if a library is missing, not after an hour
            results = start_results(suite, options, cells)
            results.versions = plan.versions
            results.notices += plan.notices
            complete = measure(options, cells, results, Path(folder))
    deliver(suite, options, results, complete)
    return 130 if not complete else 1 if results.failures or suite.missed(results) else 0


def main(words: list[str]) -> int:
    name, rest = (words[0], words[1:]) if words and not words[0].startswith("-") else ("malloc", words)
    if name in OTHERS:
        return OTHERS[name](rest)
    if name not in SUITES:
        say(f"run.py: there is no suite {name}; there are: {', '.join([*SUITES, *OTHERS])}")
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
