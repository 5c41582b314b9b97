#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program with jemalloc preloaded and with libtarn-jemalloc preloaded, and compares what it prints line by line.

The lines that differ must be those of deviations.txt, which says why: a deviation that is gone is an error too. Without
jemalloc only the exit code of the program under tarn is checked, and the test says so and counts as skipped (77).
"""
import argparse
import fnmatch
import os
import pathlib
import subprocess
import sys


def lines_of(program, library):
    environment = dict(os.environ, LD_PRELOAD=library, TARN_GUARDED="off")
    environment.pop("MALLOC_CONF", None)
    done = subprocess.run([program], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} with {library} ended with {done.returncode}")
    return done.stdout.splitlines()


def keyed(lines):
    """{what was called: what came back}. The last field, or the last two if one is a length, are the answer."""
    found = {}
    for line in lines:
        fields = line.split("\t")
        answer = 2 if fields[-1].startswith("length") else 1
        key = "\t".join(fields[:-answer])
        number = 2
        while key in found:
            key = "\t".join(fields[:-answer]) + f" ({number})"
            number += 1
        found[key] = " ".join(fields[-answer:])
    return found


def deviations(path, program):
    """[(pattern, reason)] for this program."""
    found = []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            of, pattern, reason = (part.strip() for part in line.split("|"))
            if of == program:
                found.append((pattern, reason))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--tarn", required=True)
    parser.add_argument("--jemalloc", default="")
    parser.add_argument("--deviations", required=True)
    options = parser.parse_args()
    ours = keyed(lines_of(options.program, options.tarn))
    if not options.jemalloc:
        print(f"skipped: {len(ours)} answers of tarn have nothing to be compared with: install the Debian package libjemalloc2")
        return 77
    theirs = keyed(lines_of(options.program, options.jemalloc))
    expected = deviations(options.deviations, pathlib.Path(options.program).name)
    used = set()
    wrong = 0
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) == theirs.get(key):
            continue
        text = key.replace("\t", " ")
        match = next((pattern for pattern, _ in expected if fnmatch.fnmatchcase(text, pattern)), None)
        used.add(match)
        if match is None:
            wrong += 1
            print(f"differs: {text}: jemalloc {theirs.get(key)}, tarn {ours.get(key)}")
    for pattern, reason in expected:
        if pattern not in used:
            wrong += 1
            print(f"no longer differs, remove it from deviations.txt: {pattern} ({reason})")
    print(f"{len(ours)} answers, {len(used - {None})} known deviations, {wrong} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
