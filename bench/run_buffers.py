#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures tarn's buffer pools beside one reused buffer, mmap, and the large blocks of each malloc that is installed.

run_buffers.py --build-dir build/bench       7 rounds of 1, 8, 16, 32 and 128 MiB: a table, and whether the goals are met
run_buffers.py --sizes 8,32                  some sizes
run_buffers.py --quick                       a small part of the work: does everything run?
run_buffers.py --huge-pages never            as TARN_HUGE_PAGES=never: the same kind of pages for all contenders

Ends with status 1 if a goal is missed."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers.contender import SUBJECT, SYSTEM, installed_peers  # noqa: E402  (the path is set above)

ROOT = Path(__file__).resolve().parent.parent
SIZES = (1, 8, 16, 32, 128)
# The work of one run, per mille of the full work.
FULL, QUICK = 500, 5


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run_buffers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", "--rounds", type=int, metavar="ROUNDS", help="default 7; 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="no figures to quote")
    parser.add_argument("--sizes", type=sizes_of, metavar="MIB,…", default=SIZES, help="default: 1,8,16,32,128")
    parser.add_argument("--huge-pages", choices=("auto", "always", "never"), default="auto", help="default: auto")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    return parser.parse_args(words)


def sizes_of(text: str) -> tuple[int, ...]:
    """The sizes in a text such as 1,8,32."""
    sizes = tuple(int(each) if each.isdecimal() else 0 for each in text.split(","))
    if 0 in sizes:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of sizes in MiB, such as 8,32")
    return sizes


def run(program: Path, mib: int, scale: int, library: Path | None, huge_pages: str) -> dict:
    environment = {**os.environ, "TARN_HUGE_PAGES": huge_pages}
    if library:
        environment["LD_PRELOAD"] = str(library)
    done = subprocess.run(
        [str(program), str(mib), str(scale)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{program} {mib}: status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def median(runs: list[dict], name: str, figure: str = "us") -> float:
    return statistics.median(each[name][figure] for each in runs)


def ratio(runs: list[dict], name: str, to: str) -> float:
    """The time of one contender divided by that of another one in the same process; the median of all runs."""
    return statistics.median(each[name]["us"] / each[to]["us"] for each in runs)


def table(results: dict[tuple[str, int], list[dict]], mallocs: list[str], sizes: tuple[int, ...]) -> str:
    columns = ["written only", "pool", "zeroed pool", *(f"malloc, {name}" for name in mallocs), "mmap"]
    lines = ["| MiB | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for mib in sizes:
        own = results[SUBJECT, mib]
        cells = [median(own, name) for name in ("reused", "pool", "zeroed")]
        cells += [median(results[name, mib], "malloc") for name in mallocs]
        cells.append(median(own, "mmap"))
        lines.append(f"| {mib} | " + " | ".join(f"{cell:,.0f}" for cell in cells) + " |")
    return "\n".join(lines)


def goals(results: dict[tuple[str, int], list[dict]]) -> list[tuple[bool, str]]:
    checks = []
    for mib in (8, 16, 32):
        own = results.get((SUBJECT, mib))
        if own is None:
            continue
        faults = median(own, "pool", "faults")
        checks.append((faults == 0, f"{mib} MiB: {faults:.2f} page faults of the pool after the first round, 0"))
        over = ratio(own, "pool", "reused")
        checks.append((over <= 1.03, f"{mib} MiB: pool {over:.2f} of writing one reused buffer, at most 1.03"))
        for name, beside in (("reused", "writing one reused buffer"), ("pool", "the pool")):
            over = ratio(own, "malloc", name)
            checks.append((over <= 1.05, f"{mib} MiB: malloc of libtarn {over:.2f} of {beside}, at most 1.05"))
    for name in (SYSTEM, "jemalloc"):
        if runs := results.get((name, 32)):
            faster = ratio(runs, "malloc", "pool")
            checks.append((faster >= 5, f"32 MiB: pool {faster:.1f} times as fast as {name}'s malloc, at least 5"))
    return checks


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    rounds = options.rounds or (1 if options.quick else 7)
    scale = QUICK if options.quick else FULL
    peers, notices = installed_peers()
    for notice in notices:
        print(notice, file=sys.stderr)
    programs = options.build_dir / "bench"
    own, others = programs / "buffers_loops_tarn", programs / "buffers_loops"
    if not own.exists() or not others.exists():
        print(f"{own} is not there: ./dev build bench", file=sys.stderr)
        return 2
    results: dict[tuple[str, int], list[dict]] = {}
    for _ in range(rounds):
        for mib in options.sizes:
            results.setdefault((SUBJECT, mib), []).append(run(own, mib, scale, None, options.huge_pages))
            for peer in peers:
                done = run(others, mib, scale, peer.library, options.huge_pages)
                results.setdefault((peer.name, mib), []).append(done)
    mallocs = [SUBJECT, *(peer.name for peer in peers)]
    print(f"µs to take a buffer, write all of it, and give it back; medians of {rounds} rounds\n")
    print(table(results, mallocs, options.sizes), end="\n\n")
    checks = goals(results)
    for met, what in checks:
        print(f"{'met   ' if met else 'MISSED'}  {what}")
    return 0 if options.quick or all(met for met, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
