#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the misuse programs of this folder under several allocators and prints a table of the outcomes.

`cmake --build build/release --target misuse_kit` builds what is needed and runs this script for both builds of tarn,
libc's malloc, and jemalloc and mimalloc where they are installed.

A case is one wrong use of the heap in a process of its own. It ends in one of these ways:
  detected   the process ends by SIGABRT, as allocators do with a message, or by a fault of the wrong write itself
  no effect  the process goes on, and no block of another owner, no result of malloc and no foreign memory is wrong
  harm       the process goes on, and one of these is wrong; or it hangs
  crash      the process ends by another signal, inside the allocator, which has used overwritten data

--bound: exit status 1 unless `fast` has fewer cases of harm and crash together than `glibc`, and `hardened` has none.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

PROGRAMS = {
    "misuse_overrun": None,  # prints one line each for overflow, underflow and use after free
    "misuse_double_free": "double free",
    "misuse_interior": "free of a pointer into a block",
    "misuse_foreign": "free of a foreign pointer",
    "misuse_use_after_free": "every byte of freed blocks overwritten",
}
PEERS = {"jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2"}
OUTCOMES = ("detected", "no effect", "harm", "crash")
LINE = re.compile(
    r"^measured: (?:(?P<kind>[a-z ]+): )?(?P<cases>\d+) cases: (?P<detected>\d+) detected, (?P<without>\d+) without effect; "
    r"harm (?P<harm>\d+), crash (?P<crash>\d+)(?:, hang (?P<hang>\d+), abort without the line (?P<unnamed>\d+))?$", re.M)


def counts_of(match):
    number = {name: int(match[name] or 0) for name in ("cases", "detected", "without", "harm", "crash", "hang", "unnamed")}
    counts = {"detected": number["detected"] + number["unnamed"], "no effect": number["without"],
              "harm": number["harm"] + number["hang"], "crash": number["crash"]}
    if sum(counts.values()) != number["cases"]:
        sys.exit(f"misuse_kit: the cases do not add up: {match[0]}")
    return counts


def run(folder, program, library):
    """Runs one program under one allocator; returns {kind: counts}."""
    environment = dict(os.environ, TARN_GUARDED="off")
    environment.pop("TARN_LIB", None)
    environment.pop("LD_PRELOAD", None)
    if library:
        environment["LD_PRELOAD"] = library
    done = subprocess.run([str(folder / program)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False)
    if library and "cannot be preloaded" in done.stderr:
        sys.exit(f"misuse_kit: {library} cannot be preloaded")
    found = {}
    for match in LINE.finditer(done.stdout):
        if match["kind"] != "all":
            found[match["kind"] or PROGRAMS[program]] = counts_of(match)
    if not found:
        sys.exit(f"misuse_kit: {program} under {library or 'libc'} ends with status {done.returncode} and no figures:\n"
                 + done.stdout + done.stderr[:2000])
    return found


def installed_peers():
    known = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False).stdout
    for name, file in PEERS.items():
        match = re.search(rf"{re.escape(file)} .* => (\S+)", known)
        if match:
            yield name, match[1]


def print_table(results):
    names = list(results)
    kinds = list(results[names[0]])
    total = {name: {outcome: sum(results[name][kind][outcome] for kind in kinds) for outcome in OUTCOMES} for name in names}
    print("Each cell: " + " / ".join(OUTCOMES) + "\n")
    print("| misuse | cases | " + " | ".join(names) + " |")
    print("|---|---:|" + "---|" * len(names))
    for kind in kinds:
        cells = [results[name][kind] for name in names]
        print(f"| {kind} | {sum(cells[0].values())} | "
              + " | ".join(" / ".join(str(cell[outcome]) for outcome in OUTCOMES) for cell in cells) + " |")
    print(f"| all | {sum(total[names[0]].values())} | "
          + " | ".join(" / ".join(str(total[name][outcome]) for outcome in OUTCOMES) for name in names) + " |")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of the built misuse_* programs")
    parser.add_argument("--fast", required=True, help="libtarn.so")
    parser.add_argument("--hardened", required=True, help="libtarn-hardened.so")
    parser.add_argument("--no-peers", action="store_true", help="leave out jemalloc and mimalloc")
    parser.add_argument("--bound", action="store_true", help="fail where the promise does not hold")
    arguments = parser.parse_args()
    libraries = {"fast": arguments.fast, "hardened": arguments.hardened, "glibc": ""}
    if not arguments.no_peers:
        libraries.update(installed_peers())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {name: [pool.submit(run, arguments.programs, program, library) for program in PROGRAMS]
                for name, library in libraries.items()}
        results = {name: {kind: counts for one in of_name for kind, counts in one.result().items()}
                   for name, of_name in runs.items()}
    total = print_table(results)
    bad = {name: total[name]["harm"] + total[name]["crash"] for name in total}
    if arguments.bound and (bad["fast"] >= bad["glibc"] or bad["hardened"] != 0):
        sys.exit(f"misuse_kit: harm or crash: fast {bad['fast']}, glibc {bad['glibc']}, hardened {bad['hardened']} cases")


if __name__ == "__main__":
    main()
