#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs real programs under tarn in every way in which it can come in, and compares what they do with what they do without it.

Usage: run.py BUILD_FOLDER [--quick] [--only NAMES] [--ways WAYS] [--times N] [--json FILE] [--markdown FILE]
       run.py --packages      Debian's packages that bring all programs

A cell is a program and a way. It passes if the program prints the same, ends with the same status within its time, leaves no
process behind, and, where the way writes a profile, the profile names the program's own functions. attach attaches and detaches
in the middle of the run. --quick takes the rows and ways of every test run. --times runs each cell so often; it passes if all runs
do, and its time is the median. Programs that are not installed are named.

Exit status: 0 no cell failed; 1 one did; 77 nothing could be run.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import report
from program import SOURCES, Program
from rows_languages import ROWS as LANGUAGES
from rows_servers import ROWS as SERVERS
from rows_tools import ROWS as TOOLS
from ways import (PROFILES, QUICK_WAYS, WAYS, Tarn, as_shell, attach_to, is_alive, names_in)

ROWS = [*LANGUAGES, *SERVERS, *TOOLS]
# Modules that Debian does not have: python3 -m venv --system-site-packages, then pip install pyarrow duckdb polars.
WORLD_VENV = Path(os.environ.get("WORLD_VENV", Path.home() / ".cache/tarn-world-venv"))
NOT_PACKAGES = {"rustup", "crates", "or", "Debian's"}
PATIENCE = 5  # seconds that other processes of a program may take to end after it
BEFORE_ATTACH = 0.25  # seconds that a run lasts before tarn attaches
ATTACHED_RUNS = (4, 15)  # seconds that a run lasts to which tarn attaches: the next, if it has ended before


@dataclass
class Outcome:
    """Of one run: what it printed, its status (None: it did not end), and what went wrong beside that."""
    output: str
    status: int | None
    problem: str = ""
    seconds: float = 0.0


@dataclass
class Cell:
    program: str
    way: str
    result: str  # passed, failed, not applicable
    note: str = ""
    seconds: float = 0.0


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TARN_", "LD_"))}
    kept.update(LC_ALL="C.UTF-8", TZ="UTC", PATH=f"{kept.get('PATH', '')}:/usr/sbin:/sbin", SOURCES=str(SOURCES), WORLD_VENV=str(WORLD_VENV))
    return kept


def lacks(program: Program) -> str:
    """The first need that is not there; "" if all are."""
    path = environment()["PATH"]
    for need in program.needs.split():
        if need.startswith("py:"):
            there = subprocess.run(["/usr/bin/python3", "-c", f"import {need[3:]}"], capture_output=True, check=False).returncode == 0
        elif need.startswith("venv:"):
            there = bool(list(WORLD_VENV.glob(f"lib/*/site-packages/{need[5:]}")))
        elif "/" in need:
            there = bool(list(Path("/").glob(need.lstrip("/"))))
        else:
            there = shutil.which(need, path=path) is not None
        if not there:
            return need
    return ""


def processes_of(session: int) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if fields[3] == str(session) and fields[0] not in "ZX":
            found.append(int(each.parent.name))
    return found


def end_session(session: int, patience: float) -> int:
    """Ends every process of the session that has not ended by itself after `patience` seconds; returns how many there were."""
    until = time.monotonic() + patience
    while processes_of(session) and time.monotonic() < until:
        time.sleep(0.05)
    left = processes_of(session)
    for each in left:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return len(left)


class Running:
    """A line of bash in a session of its own."""

    def __init__(self, line: str, folder: Path, log: str):
        self.out = folder / log
        with self.out.open("wb") as out, (folder / f"{log}.errors").open("wb") as errors:
            self.process = subprocess.Popen(["bash", "-c", line], cwd=folder, env=environment(), stdout=out, stderr=errors,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        self.began = time.monotonic()

    def wait(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def finish(self, patience: float = 0) -> tuple[str, int]:
        left = end_session(self.process.pid, patience)
        self.process.wait()
        return self.out.read_text(errors="replace"), left


def process_of(pid_file: Path) -> int:
    until = time.monotonic() + 30  # the line may make an input first
    while time.monotonic() < until:
        text = pid_file.read_text().strip() if pid_file.exists() else ""
        if text:
            return int(text)
        time.sleep(0.01)
    return 0


def run_tool(program: Program, line: str, folder: Path, tarn: Tarn, way: str, profile: Path, pid_file: Path) -> Outcome:
    running = Running(line, folder, ".output")
    problem = ""
    if way == "attach":
        process = process_of(pid_file)
        time.sleep(BEFORE_ATTACH)
        problem = attach_to(tarn, process, profile) if process else "did not start"
    status = running.wait(program.seconds)
    seconds = time.monotonic() - running.began
    output, left = running.finish(PATIENCE if status is not None else 0)
    if status is None:
        problem = problem or f"did not end within {program.seconds:.0f} s"
    elif left:
        problem = problem or f"{left} processes left behind"
    return Outcome(output, status, problem, seconds)


def run_server(program: Program, line: str, folder: Path, tarn: Tarn, way: str, profile: Path, pid_file: Path) -> Outcome:
    server = Running(line, folder, ".server")
    until = time.monotonic() + program.seconds
    while subprocess.run(["bash", "-c", program.ready], cwd=folder, env=environment(), capture_output=True,
                         stdin=subprocess.DEVNULL, check=False).returncode != 0:
        if time.monotonic() > until or server.process.poll() is not None:
            server.finish()
            tail = (folder / ".server.errors").read_text(errors="replace")[-300:] or server.out.read_text(errors="replace")[-300:]
            return Outcome("", None, f"did not become ready: {tail.strip()}")
        time.sleep(0.1)
    problem = ""
    loads: list[Running] = []
    if way == "attach":
        # A load that began before might end before, on a busy machine.
        process = process_of(pid_file)
        problem = attach_to(tarn, process, profile, lambda: loads.append(Running(program.load, folder, ".output"))) if process else "did not start"
    load = loads[0] if loads else Running(program.load, folder, ".output")
    status = load.wait(program.seconds)
    output, _ = load.finish()
    if status is None:
        problem = problem or f"the load did not end within {program.seconds:.0f} s"
    if server.process.poll() is not None and not program.stop:
        problem = problem or f"the server ended with status {server.process.returncode} under the load"
    stop_server(program, server, folder, pid_file)
    ended = server.wait(30)
    seconds = time.monotonic() - server.began
    server.finish()
    return Outcome(output, status, problem or ("the server did not end within 30 s" if ended is None else ""), seconds)


def stop_server(program: Program, server: Running, folder: Path, pid_file: Path) -> None:
    if program.stop:
        subprocess.run(["bash", "-c", program.stop], cwd=folder, env=environment(), capture_output=True, timeout=60, check=False)
        return
    process = process_of(pid_file) if pid_file.exists() else server.process.pid
    for each in {process, server.process.pid}:
        if is_alive(each):
            os.kill(each, signal.SIGTERM)


def run_once(program: Program, tarn: Tarn, way: str, made: Path, rounds: int) -> tuple[Outcome, str]:
    """One run in a copy of the folder with the input, and what the profile lacks."""
    with tempfile.TemporaryDirectory(prefix="tarn-world-", ignore_cleanup_errors=True) as name:
        folder = Path(name) / "run"
        shutil.copytree(made, folder, symlinks=True)
        # A server may give up its rights.
        os.chmod(name, 0o777)
        profile, pid_file = Path(name) / "world.prof", Path(name) / "pid"
        line = program.run.replace("{rounds}", str(rounds)).replace("{with}", as_shell(tarn.words_before(way, profile), pid_file))
        outcome = (run_server if program.is_server else run_tool)(program, line, folder, tarn, way, profile, pid_file)
        missing = ""
        if way in PROFILES and not outcome.problem:
            missing = names_in(tarn, way, profile, program.own)
        return outcome, missing


def long_run(program: Program, tarn: Tarn, made: Path, usual: Outcome, seconds: float) -> tuple[Outcome, int]:
    """A run without tarn that lasts so long, and its rounds."""
    outcome, rounds = usual, program.rounds
    while rounds and not outcome.problem and outcome.seconds < seconds:
        rounds = int(rounds * min(20, max(1.5, 1.3 * seconds / max(0.01, outcome.seconds)))) + 1
        outcome, _ = run_once(program, tarn, "none", made, rounds)
    return outcome, rounds


def judge(program: Program, tarn: Tarn, way: str, made: Path, plain: Outcome, rounds: int) -> Cell:
    outcome, missing = run_once(program, tarn, way, made, rounds)
    cell = Cell(program.name, way, "failed", seconds=round(outcome.seconds, 2))
    if outcome.problem == "ended":
        cell.result, cell.note = "not applicable", "it ends before tarn attaches"
    elif outcome.problem:
        cell.note = outcome.problem
    elif outcome.status != plain.status:
        cell.note = f"status {outcome.status}, without tarn {plain.status}"
    elif outcome.output != plain.output:
        cell.note = "prints something else than without tarn"
    elif missing:
        cell.note = missing
    else:
        cell.result = "passed"
    return cell


def judge_times(program: Program, tarn: Tarn, way: str, made: Path, plain: Outcome, rounds: int, times: int) -> Cell:
    """One cell of several runs: the first that did not pass says how, and how many did is counted."""
    cells = [judge(program, tarn, way, made, plain, rounds) for _ in range(times)]
    others = [each for each in cells if each.result != "passed"]
    cell = replace(others[0] if others else cells[0], seconds=round(median(each.seconds for each in cells), 2))
    if times > 1:
        cell.note = f"{times - len(others)} of {times} runs passed{': ' + cell.note if others else ''}"
    return cell


def cells_of(program: Program, tarn: Tarn, ways: list[str], scratch: Path, times: int) -> list[Cell]:
    made = scratch / program.name.replace(" ", "-")
    made.mkdir()
    if program.make:
        done = subprocess.run(["bash", "-ec", program.make], cwd=made, env=environment(), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=600, check=False)
        if done.returncode != 0:
            return [Cell(program.name, "none", "not here", f"its input cannot be made: {done.stderr.strip()[-200:]}")]
    plain, _ = run_once(program, tarn, "none", made, program.rounds)
    again, _ = run_once(program, tarn, "none", made, program.rounds)
    if plain.problem or plain.output != again.output:
        return [Cell(program.name, "none", "not here",
                     plain.problem or "prints something else at each run without tarn")]
    usual = plain
    refused = dict(program.without)
    cells = []
    for way in ways:
        if way in refused or way == "shim" and "shim" not in program.field:
            if way != "shim":
                cells.append(Cell(program.name, way, "not applicable", refused[way]))
            continue
        for seconds in ATTACHED_RUNS if way == "attach" and program.rounds else (0,):
            plain, rounds = long_run(program, tarn, made, usual, seconds)
            cell = judge_times(program, tarn, way, made, plain, rounds, times)
            if cell.result != "not applicable":
                break
        cells.append(cell)
        print(f"{program.name:24} {way:9} {cells[-1].result:15} {cells[-1].seconds:6.2f} s  {cells[-1].note}", flush=True)
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, nargs="?")
    parser.add_argument("--packages", action="store_true", help="print Debian's packages that bring the programs")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="names of rows, separated by commas")
    parser.add_argument("--ways", default="", help=",".join(WAYS))
    parser.add_argument("--times", type=int, default=1, help="runs of each cell")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="writes the page of results")
    options = parser.parse_args()
    if options.packages:
        words = {word.strip(",") for each in ROWS for word in each.packages.split()}
        print("\n".join(sorted(word for word in words if ":" not in word and word not in NOT_PACKAGES)))
        return 0
    if options.build is None:
        parser.error("name the build folder")
    tarn = Tarn(options.build.resolve())
    ways = options.ways.split(",") if options.ways else list(QUICK_WAYS if options.quick else WAYS)
    only = set(filter(None, options.only.split(",")))
    rows = [each for each in ROWS if (each.name in only if only else each.quick or not options.quick)]
    cells, versions = [], {}
    with tempfile.TemporaryDirectory(prefix="tarn-world-made-") as scratch:
        os.chmod(scratch, 0o755)
        for program in rows:
            lacking = lacks(program)
            if lacking:
                cells.append(Cell(program.name, "none", "not here", f"{lacking} is missing: {program.packages}"))
            else:
                cells += cells_of(program, tarn, ways, Path(scratch), options.times)
                version = subprocess.run(["bash", "-c", program.version], capture_output=True, text=True, env=environment(), check=False)
                versions[program.name] = (version.stdout + version.stderr).strip().split("\n")[0][:60]
    if options.json:
        options.json.write_text(json.dumps({"cells": [asdict(each) for each in cells], "versions": versions}, indent=1))
    if options.markdown:
        report.write(options.markdown, ROWS, [asdict(each) for each in cells], versions)
    return report.say([asdict(each) for each in cells])


if __name__ == "__main__":
    sys.exit(main())
