# SPDX-License-Identifier: MIT
"""Runs every benchmark program with tiny work: each must end with status 0, and each workload must give the
same checksum twice with the same threads. Wrong arguments must be refused. Usage: smoke.py FOLDER_OF_PROGRAMS."""

import json
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runner.rows import WORKLOADS  # noqa: E402  (the path is set above)

TINY = "3"  # per mille of the full work


def output_of(command: list[str], status: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != status:
        raise AssertionError(
            f"{' '.join(command)}: status {done.returncode} instead of {status}: " f"{done.stderr.strip()}"
        )
    return done.stdout


def check_workload(program: Path, threads: int) -> None:
    lines = [output_of([str(program), str(threads), TINY]).split() for _ in range(2)]
    for line in lines:
        if len(line) != 2 or float(line[0]) < 0 or len(line[1]) != 16:
            raise AssertionError(f"{program.name}: printed {line} instead of its seconds and a checksum")
    if lines[0][1] != lines[1][1]:
        raise AssertionError(f"{program.name} {threads}: checksums differ: {lines[0][1]} and {lines[1][1]}")
    for wrong in ([], ["0"], ["two"], ["1", "0"], ["1", "1", "1"]):
        output_of([str(program), *wrong], status=2)


def check_launcher(launcher: Path) -> None:
    report = json.loads(output_of([str(launcher), "--touch", "1", "--", "sh", "-c", "exit 3"]))
    if report["status"] != 3 or report["rss"] <= 0 or report["preload"] not in ("used", "unknown"):
        raise AssertionError(f"bench_launch reported {report}")
    # The launcher itself is static: no library can be preloaded into it, and the report must say so.
    refused = json.loads(
        output_of([str(launcher), "--preload", "/no/such/library.so", "--", str(launcher), "--", "true"])
    )
    if refused["preload"] not in ("missing", "unknown"):
        raise AssertionError(f"bench_launch did not notice a preload that failed: {refused}")
    stopped = json.loads(output_of([str(launcher), "--limit", "1", "--", "sleep", "20"]))
    if stopped["signal"] != 9:
        raise AssertionError(f"bench_launch did not stop a program at its limit: {stopped}")
    output_of([str(launcher)], status=2)


def check_micro(folder: Path) -> None:
    cycles = json.loads(output_of([str(folder / "bench_cycles"), "20"]))
    if not (cycles["pair64"] > 0 and cycles["batch1000"] > 0):
        raise AssertionError(f"bench_cycles printed {cycles}")
    if (folder / "bench_micro").exists():
        done = json.loads(
            output_of([str(folder / "bench_micro"), "--benchmark_format=json", "--benchmark_min_time=0.0001"])
        )
        silent = [each["name"] for each in done["benchmarks"] if not each.get("items_per_second")]
        if silent or not done["benchmarks"]:
            raise AssertionError(f"bench_micro gave no figure for {silent}")


def main() -> int:
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} FOLDER_OF_PROGRAMS", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    failed = 0
    checks = [
        (f"{program} {threads}", check_workload, (folder / program, threads))
        for _, program, threads, _ in WORKLOADS
    ]
    checks += [
        ("bench_launch", check_launcher, (folder / "bench_launch",)),
        ("micro", check_micro, (folder,)),
    ]
    for name, check, arguments in checks:
        try:
            check(*arguments)
            print(f"ok      {name}")
        except (AssertionError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAILED  {name}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
