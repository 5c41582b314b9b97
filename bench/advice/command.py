# SPDX-License-Identifier: MIT
"""Measures whether the advice of `tarn advise` holds: real programs are recorded, advised and proven.

Usage: ./dev bench --advice [--half fit|test] [--only NAME,...] [--rounds N] [--fresh] [--results FILE]
       ./dev bench --advice --show       measures nothing and prints the table of the results file
       ./dev bench --advice --fit        writes profiler/analyze/experience_table.inc from the results of the half "fit"

Each program (bench/advice/programs.py) is recorded as root and as an ordinary user, both recordings are advised with a
replay, and `tarn prove` runs the program with each piece of advice that needs no edit of its source. The results file
has one line of JSON per program. Programs that it has are not measured again, so an interrupted run can be continued
(--fresh measures all again, --only the named ones).

The table shows, for the first piece of advice that can be tried without an edit: the prediction in percent of CPU time
and its interval; the measurement and its interval; whether that lies inside (yes; noise: at most 3 % of CPU time
outside; NO); the interval's width; whether the direction is right; whether it was right to advise something or nothing;
and whether the ordinary user gets the same first advice. Root is needed to run a program as that user.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

from advice import fitting, judgement, programs, proofs, results

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PARANOID = "/proc/sys/kernel/perf_event_paranoid"


def chosen(settings):
    wanted = set(settings.only.split(",")) if settings.only else None
    known = programs.all_programs()
    unknown = (wanted or set()) - {program.name for _, program in known}
    if unknown:
        sys.exit(f"there is no program {', '.join(sorted(unknown))}; there are: {', '.join(program.name for _, program in known)}")
    return [(half, program) for half, program in known
            if (wanted is None or program.name in wanted) and settings.half in (None, half)]


def library_of(build):
    for name in ("libtarn.so", "libtarn.so.1"):
        path = os.path.join(build, "lib", name)
        if os.path.exists(path):
            return path
    sys.exit(f"{build}/lib has no libtarn: ./dev build bench")


def show(known, wanted):
    print(judgement.HEADER)
    rows = {"fit": [], "test": []}
    for half, program in wanted:
        if program.name in known:
            rows[half].append(judgement.judge(known[program.name]))
            print(judgement.say(rows[half][-1]))
    for half, judged in rows.items():
        if judged:
            print(judgement.say_summary(half, judged))


def measure_all(settings, known, wanted):
    """Measures the programs and returns how many of them failed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tarn-advice-") as folder:
        os.chmod(folder, 0o755)
        measurement = proofs.Measurement(os.path.join(settings.build, "bin", "tarn"), library_of(settings.build), folder, settings)
        for half, program in wanted:
            if program.name in known and not (settings.only or settings.fresh):
                continue
            begin = time.monotonic()
            try:
                result = proofs.measure(measurement, program)
            except (proofs.CannotMeasure, OSError, subprocess.TimeoutExpired) as error:
                print(f"{program.name}: left out: {error}", flush=True)
                failed += 1
                continue
            known[program.name] = {**result, "half": half, "seconds": round(time.monotonic() - begin, 1)}
            results.store(settings.results, known)
            print(judgement.say(judgement.judge(known[program.name])) + f"; {time.monotonic() - begin:.0f} s", flush=True)
    return failed


def main(words):
    parser = argparse.ArgumentParser(prog="run.py advice", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--results", default=os.path.join(ROOT, "bench", "advice_results.jsonl"))
    parser.add_argument("--half", choices=("fit", "test"))
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=5, help="of each proof (5)")
    parser.add_argument("--replay-rounds", type=int, default=3)
    parser.add_argument("--user", type=int, default=65534, help="the ordinary user (65534)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one step")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--fit", action="store_true")
    settings = parser.parse_args(words)
    known = results.load(settings.results)
    wanted = chosen(settings)
    if settings.fit:
        fitting.write_table([result for result in known.values() if result["half"] == "fit"])
        return 0
    failed = 0
    if not settings.show:
        if os.geteuid() != 0:
            sys.exit("root is needed: programs are recorded as an ordinary user, too")
        with open(PARANOID, encoding="ascii") as file:
            print(f"perf_event_paranoid is {file.read().strip()} for user {settings.user}", flush=True)
        failed = measure_all(settings, known, wanted)
    show(known, wanted)
    return 1 if failed else 0
