# SPDX-License-Identifier: MIT
"""The suite profiler: what profiling costs, as the processor time of real programs under `tarn profile` over that without.

heaptrack takes part where it is installed. The time is that of the program alone, without the collector, which is another
process: it needs a processor of its own, or it takes time from the program."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from peers.contender import SYSTEM_MALLOC, Contender, ContenderError
from report.results import Results
from report.tables import ratio_table
from runner.launch import Launcher, RunFailed
from runner.session import Cell, Figures, Task
from suites.suite import BUILD_FIRST, Plan, Suite

SOURCES = Path(__file__).resolve().parent.parent / "profiler"
HEAPTRACK = Path("/usr/lib/heaptrack/libheaptrack_preload.so")
SCENE = "program"
BARE, SAMPLE, FULL = "bare", "sample", "full"

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
HEADERS = ("regex", "map", "string", "algorithm", "iostream", "functional")
SOURCE = "".join(f"#include <{name}>\n" for name in HEADERS) + """
int main() { std::regex r("a*b"); std::map<std::string, std::function<int(int)>> m;
             std::cout << m.size() << std::regex_match("aab", r); }"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tarn", type=Path, help="the command (default: that of the build)")


def make(command: list[str], text: str = "") -> None:
    subprocess.run(command, check=True, input=text, text=True)


def programs(folder: Path, scale: int) -> dict[str, tuple[list[str], Callable[[], None]]]:
    """Name: command line, and what has to be done before, of the programs that are here."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise ContenderError("there is no C++ compiler (Debian: apt-get install g++)")
    found = {}
    for name, rounds in (("churn", 10_000_000), ("buffers", 60)):
        program = str(folder / name)
        compilation = [compiler, "-O2", "-g", str(SOURCES / f"{name}.cpp"), "-o", program]
        found[name] = ([program, str(rounds * scale // 1000)], partial(make, compilation))
    if sqlite := shutil.which("sqlite3"):
        found["sqlite3"] = ([sqlite, ":memory:", SQL], lambda: None)
    # The interpreter itself, not a script that chooses one.
    found["python3 json"] = ([os.path.realpath(sys.executable), "-S", "-c", PYTHON], lambda: None)
    asked = subprocess.run([compiler, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=False)
    if os.path.isabs(proper := asked.stdout.strip()):
        source = str(folder / "source.ii")
        command = [proper, "-quiet", "-O1", "-std=c++20", source, "-o", os.devnull]
        found["cc1plus"] = (command, partial(make, [compiler, "-std=c++20", "-E", "-x", "c++", "-", "-o", source], SOURCE))
    return found


def read_bare(report: dict, launcher: Launcher) -> Figures:
    return {"cpu": report["user"] + report["sys"], "wall": report["wall"]}


def read_profiled(report: dict, launcher: Launcher) -> Figures:
    """The profiler's last line is its summary."""
    try:
        program = json.loads(launcher.errors.read_text().splitlines()[-1])["program"]
        cpu = (program["user_ns"] + program["system_ns"]) / 1e9
        return {"cpu": cpu, "wall": report["wall"], "lost_events": program["lost_events"]}
    except (IndexError, KeyError, TypeError) as error:
        raise RunFailed(f"tarn profile printed no summary{launcher.last_error()}") from error


def plan(options: argparse.Namespace, inputs: Path) -> Plan:
    tarn = (options.tarn or options.build_dir / "bin" / "tarn").resolve()
    if not tarn.exists():
        raise ContenderError(f"{tarn} is missing; {BUILD_FIRST}")
    profile = [str(tarn), "profile", "--json", "-o", str(inputs / "x.prof"), "--mode"]
    ways = [(BARE, "reference", [], read_bare, SYSTEM_MALLOC)]
    ways += [(mode, "tarn", [*profile, mode, "--"], read_profiled, SYSTEM_MALLOC) for mode in (SAMPLE, FULL)]
    if HEAPTRACK.exists():
        output = ("DUMP_HEAPTRACK_OUTPUT", str(inputs / "heaptrack"))
        ways.append(("heaptrack", "peer", [], read_bare, Contender("heaptrack", HEAPTRACK, (output,))))
    found = Plan()
    for name, (command, prepare) in programs(inputs, options.scale).items():
        tasks = tuple(Task(way, kind, (*words, *command), read, malloc) for way, kind, words, read, malloc in ways)
        found.cells.append(Cell(SCENE, name, tasks, prepare=prepare))
    return found


def tables(results: Results) -> list[str]:
    found = ratio_table(results, "Processor time over that without recording", (SCENE,), "cpu", [BARE], SAMPLE)
    lost = [run for run in results.runs if run["figures"].get("lost_events", 0) > 0]
    return found + [f"{run['cell']}, {run['contender']}: {run['figures']['lost_events']:.0f} events were lost" for run in lost]


SUITE = Suite(
    name="profiler",
    help="what profiling costs: the processor time of real programs under `tarn profile`",
    add_options=add_options,
    plan=plan,
    tables=tables,
    limit=600,
)
