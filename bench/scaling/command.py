# SPDX-License-Identifier: MIT
"""Counts contention on this machine and says how throughput would grow with more processors.
See docs/explanation/scaling.md.

Usage: ./dev bench --scaling [-n ROUNDS] [--threads LIST] [--workloads LIST] [--with NAME=LIBRARY] [--json FILE]
       ./dev bench --scaling --from-json FILE    measures nothing

Each workload runs with one thread on one processor and with two on two, timed (counting off) and counted; and counted with
each further number of threads, on two processors. --with adds another build of tarn that counts contention. --json writes
what was measured, --svg DIR the chart, --markdown FILE the tables between the file's markers.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from report import charts, markdown
from runner import machine
from scaling import chart, counters, model
from scaling.counters import WORKLOADS, ScalingError

ROOT = Path(__file__).resolve().parent.parent.parent


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py scaling", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--rounds", type=int, default=7, help="of one and of two threads (default 7)")
    parser.add_argument("--threads", default="1,2,4,8,16,32,64", help="default: 1,2,4,8,16,32,64")
    parser.add_argument("--workloads", default=",".join(each.name for each in WORKLOADS), help="default: all")
    parser.add_argument("--with", dest="extra", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--patience", type=float, default=2.0, metavar="SECONDS",
                        help="how long to wait for a run beside which nothing else runs (default 2)")
    parser.add_argument("--quick", action="store_true", help="one round, a tenth of the work: no figures to quote")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--from-json", type=Path, metavar="FILE")
    parser.add_argument("--svg", type=Path, metavar="DIR")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    options = parser.parse_args(words)
    if options.quick:
        options.patience = 0.0
    options.threads = sorted({int(word) for word in options.threads.split(",")} | {1, 2})
    wanted = options.workloads.split(",")
    unknown = set(wanted) - {each.name for each in WORKLOADS}
    if unknown:
        parser.error(f"there is no workload {', '.join(sorted(unknown))}")
    options.workloads = [each for each in WORKLOADS if each.name in wanted]
    return options


def say(line: str) -> None:
    print(line, file=sys.stderr)


def processors_of_this_machine() -> tuple[str, str]:
    """One processor, and two, as taskset wants them."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise ScalingError("the model needs two processors to measure on")
    return str(allowed[0]), f"{allowed[0]},{allowed[1]}"


def quick(workload: counters.Workload) -> counters.Workload:
    short, long = (max(50, scale // 10) for scale in workload.scales)
    fields = {name: getattr(workload, name) for name in ("name", "operation", "operations", "lines", "program")}
    return counters.Workload(scales=(short, max(long, 2 * short)), **fields)


def measure_workload(workload, programs: Path, library: Path, options: argparse.Namespace) -> dict:
    one, two = processors_of_this_machine()
    rounds = 1 if options.quick else options.rounds
    workload = quick(workload) if options.quick else workload
    timed, counted = {"1": [], "2": [], "apart": []}, {}
    collected = {1: [], 2: []}

    def sample(threads: int, processors: str, counting: bool) -> counters.Sample:
        return options.quiet.run(
            processors, lambda: counters.sample(workload, programs, library, threads, processors, counting))

    for _ in range(rounds):
        # Interleaved, so that a disturbance does not hit one of them only.
        for threads, processors in ((1, one), (2, two)):
            timed[str(threads)].append(sample(threads, processors, False).seconds)
            collected[threads].append(sample(threads, processors, True))
        timed["apart"].append(options.quiet.run(two, lambda: counters.timed_pair(workload, programs, library, two)))
    for threads in options.threads:
        samples = collected.get(threads) or [counters.sample(workload, programs, library, threads, two, True)]
        counted[str(threads)] = counters.to_json(counters.median_sample(samples))
    return {"timed": timed, "counted": counted}


def measure(options: argparse.Namespace) -> dict:
    programs = options.build_dir / "bench"
    libraries = {chart.SUBJECT: options.build_dir / "lib" / "libtarn.so.1"}
    for word in options.extra:
        name, _, library = word.partition("=")
        libraries[name] = Path(library)
    options.quiet = counters.Quiet(options.patience)
    _, two = processors_of_this_machine()

    def lines() -> list[float]:
        result = subprocess.run([programs / "scaling_line_transfer"], capture_output=True, text=True, check=True)
        return [float(word) for word in result.stdout.split()]

    # The least of each: what disturbs makes a transfer longer.
    line_ns, apart_ns = map(min, zip(*(options.quiet.run(two, lines) for _ in range(3))))
    session = {"machine": machine.describe(), "line_ns": line_ns, "independent_line_ns": apart_ns,
               "threads": options.threads, "rounds": options.rounds, "libraries": {}}
    for name, library in libraries.items():
        if not library.exists():
            raise ScalingError(f"{library} is missing; ./dev build bench builds it")
        session["libraries"][name] = {}
        for workload in options.workloads:
            say(f"{workload.name} with {name}")
            session["libraries"][name][workload.name] = measure_workload(workload, programs, library.resolve(), options)
    session["disturbed_runs"] = options.quiet.disturbed
    return session


def inputs_of(session: dict) -> dict[tuple[str, str], model.Inputs]:
    """By library and workload."""
    found = {}
    for library, workloads in session["libraries"].items():
        for workload in WORKLOADS:
            if workload.name not in workloads:
                continue
            data = workloads[workload.name]
            counted = {int(threads): counters.from_json(each) for threads, each in data["counted"].items()}
            alone, apart = (statistics.median(data["timed"][key]) for key in ("1", "apart"))
            found[library, workload.name] = model.Inputs(alone, counted, workload.lines, max(1.0, apart / alone))
    return found


def deliver(options: argparse.Namespace, session: dict) -> None:
    if options.json:
        options.json.write_text(json.dumps(session) + "\n")
    inputs = inputs_of(session)
    doubt = ""
    if session.get("disturbed_runs"):
        doubt = f"{session['disturbed_runs']} runs were disturbed by other programs: times and what follows from them are not to be quoted."
        print(f"{doubt}\n")
    tables = [chart.growth_table(session, inputs), chart.check_table(session, inputs), chart.lock_table(session, inputs)]
    for table in tables:
        print(table.text())
    if options.svg:
        chart.draw(session, inputs, options.svg / "scaling.svg")
    if options.markdown:
        text = "\n".join([f"Measured on: {markdown.machine_line(session['machine'])}. {doubt}", "", *(t.markdown() for t in tables)])
        markdown.replace_block(options.markdown, text)


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    try:
        if options.svg:
            charts.pyplot()  # fails now if a library is missing
        session = json.loads(options.from_json.read_text()) if options.from_json else measure(options)
        deliver(options, session)
    except (ScalingError, charts.ChartsUnavailable, OSError, ValueError, subprocess.CalledProcessError) as error:
        say(f"run.py scaling: {error}")
        return 2
    return 0
