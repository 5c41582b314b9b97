#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what profiling costs: the processor time of real programs under `tarn profile`, divided by that without it.

Usage: ./dev bench --profiler [--rounds N] [--only NAME,...] [--json FILE]
Rounds are interleaved: each runs every program in every way, in random order. A figure is the median time divided by
the median time without recording, with the quartiles over the rounds. heaptrack is measured as well where it is
installed. The time is that of the program alone, without the collector, which is another process: it needs a processor
of its own, or it takes time from the program. Exit status: 0 all within the aims, 1 an aim is missed.
"""
import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "bench")
TARN = os.path.join(BUILD, "bin", "tarn")
HEAPTRACK = "/usr/lib/heaptrack/libheaptrack_preload.so"
# Aims: the processor time in each mode divided by the time without recording.
AIMS = {"sample": 1.05, "full": 1.5}
CHURN_AIM = 1.15

SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
insert into t select i, 'text ' || i * 7, i * 1.5 from n;
create index x on t(b);
select sum(length(b)), count(distinct c) from t; select count(*) from t where b like '%77%';"""
PYTHON = """import json
sizes = []
for round in range(40):
    tree = {str(i): [i, {"a": i * 1.5, "b": "x" * (i % 50)}] for i in range(5000)}
    sizes.append(len(json.loads(json.dumps(tree))))
print(sum(sizes))"""
SOURCE = "\n".join(f"#include <{name}>" for name in ("regex", "map", "string", "algorithm", "iostream", "functional")) + """
int main() { std::regex r("a*b"); std::map<std::string, std::function<int(int)>> m;
             std::cout << m.size() << std::regex_match("aab", r); }"""


def programs(folder):
    """{name: command line} of the programs that are available here."""
    found = {}
    compiler = shutil.which("g++") or shutil.which("c++")
    for name, argument in (("churn", "10000000"), ("buffers", "60")):
        program = os.path.join(folder, name)
        source = os.path.join(ROOT, "bench", "profiler", name + ".cpp")
        subprocess.run([compiler, "-O2", "-g", source, "-o", program], check=True)
        found[name] = [program, argument]
    if shutil.which("sqlite3"):
        found["sqlite3"] = [shutil.which("sqlite3"), ":memory:", SQL]
    # The interpreter itself, not a script that chooses one.
    python = os.path.realpath(sys.executable)
    found["python3 json"] = [python, "-S", "-c", PYTHON]
    proper = subprocess.run([compiler, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=False).stdout.strip()
    if os.path.isabs(proper):
        source = os.path.join(folder, "source.ii")
        subprocess.run([compiler, "-std=c++20", "-E", "-x", "c++", "-", "-o", source], input=SOURCE, text=True, check=True)
        found["cc1plus"] = [proper, "-quiet", "-O1", "-std=c++20", source, "-o", os.devnull]
    return found


def bare(command, **variables):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=600,
                   env={**os.environ, **variables})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - start


def profiled(command, mode, folder, tarn):
    start = time.monotonic()
    result = subprocess.run([tarn, "profile", "--json", "--mode", mode, "-o", os.path.join(folder, "x.prof"), "--", *command],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True, timeout=600)
    summary = json.loads(result.stderr.splitlines()[-1])["program"]
    if summary["lost_events"] > 0:
        print(f"  {summary['lost_events']:.0f} events were lost", file=sys.stderr)
    return (summary["user_ns"] + summary["system_ns"]) / 1e9, time.monotonic() - start


def measure(command, way, folder, tarn):
    if way == "bare":
        return bare(command)
    if way == "heaptrack":
        return bare(command, LD_PRELOAD=HEAPTRACK, DUMP_HEAPTRACK_OUTPUT=os.path.join(folder, "heaptrack"))
    return profiled(command, way, folder, tarn)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--tarn", default=TARN)
    arguments = parser.parse_args()
    ways = ["bare", "sample", "full"] + (["heaptrack"] if os.path.exists(HEAPTRACK) else [])
    times = {}
    with tempfile.TemporaryDirectory(prefix="tarn-profiler-") as folder:
        chosen = {name: command for name, command in programs(folder).items()
                  if not arguments.only or name in arguments.only.split(",")}
        for round_number in range(arguments.rounds):
            turns = [(name, way) for name in chosen for way in ways]
            random.shuffle(turns)
            for name, way in turns:
                times.setdefault((name, way), []).append(measure(chosen[name], way, folder, arguments.tarn))
            print(f"round {round_number + 1} of {arguments.rounds}", file=sys.stderr)
    print(f"processor time over that without recording, medians of {arguments.rounds} rounds (quartiles)\n")
    print("| | seconds | " + " | ".join(ways[1:]) + " |")
    print("|---|---:|" + "---:|" * (len(ways) - 1))
    missed = []
    for name in chosen:
        base = statistics.median(used for used, _ in times[name, "bare"])
        cells = []
        for way in ways[1:]:
            ratios = sorted(used / base for used, _ in times[name, way])
            middle = statistics.median(ratios)
            cells.append(f"{middle:.2f} ({ratios[len(ratios) // 4]:.2f}–{ratios[-1 - len(ratios) // 4]:.2f})")
            aim = CHURN_AIM if name == "churn" and way == "sample" else AIMS.get(way)
            if aim and middle > aim and not (name == "churn" and way == "full"):
                missed.append(f"{name}, {way}: {middle:.2f} of {aim}")
        print(f"| {name} | {base:.2f} | " + " | ".join(cells) + " |")
    print("\n" + ("beyond the aim: " + "; ".join(missed) if missed else "all within the aims"))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({f"{name}: {way}": values for (name, way), values in times.items()}, file, indent=1)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
