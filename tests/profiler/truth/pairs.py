#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do two recordings of one command agree? Records pairs, half of them while all processors are busy.

Checked is

- that the total costs of the first recording of each side differ by at most 15 %,
- that `tarn diff --fail-if 'cost>+0%'`, with several recordings a side, is silent for the same command and reports one
  that allocates a tenth more.

    pairs.py --tarn TARN --source FOLDER [--pairs N] [--recordings N] [--only same|more] [--json FILE]

Exit status: 0 all aims are met, 1 one is missed.
"""
import argparse
import glob
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile

HEADLINE_WITHIN = 0.15
SILENT = 19 / 20
FOUND = 9 / 10
ROUNDS = 4000000  # of strings.cpp: half a second


def spin():
    while True:
        pass


class Load:
    """A busy process for each processor."""

    def __init__(self, wanted):
        self.busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(os.cpu_count() if wanted else 0)]

    def __enter__(self):
        for one in self.busy:
            one.start()

    def __exit__(self, *_):
        for one in self.busy:
            one.terminate()
            one.join()


def run(*words, status=(0,)):
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if result.returncode not in status:
        sys.exit(f"{' '.join(words)}: exit status {result.returncode}\n{result.stderr}")
    return result


class Bench:
    def __init__(self, settings, folder):
        self.tarn, self.folder, self.recordings = settings.tarn, folder, settings.recordings
        self.program = os.path.join(folder, "strings")
        run(settings.compiler, "-std=c++20", "-O2", "-g", "-pthread", "-o", self.program,
            os.path.join(settings.source, "strings.cpp"))

    def record(self, name, rounds):
        """Makes the recordings of one side; returns their files and their costs in ns."""
        run(self.tarn, "profile", "--mode", "sample", "-r", str(self.recordings), "-o",
            os.path.join(self.folder, name + ".prof"), "--", self.program, str(rounds))
        files = sorted(glob.glob(os.path.join(self.folder, name + "-*.prof")))
        return files, [json.loads(run(self.tarn, "show", "--json", path).stdout)["total"] for path in files]

    def pair(self, name, rounds, more_rounds, beside_load):
        with Load(beside_load):
            before, cost = self.record(name + "a", rounds)
            after, cost_after = self.record(name + "b", more_rounds)
        loud = run(self.tarn, "diff", "--fail-if", "cost>+0%", *before, "--", *after, status=(0, 1)).returncode
        for path in before + after:
            os.remove(path)
        apart = [abs(b / a - 1) if a else 1.0 for a, b in zip(cost, cost_after)]
        print(f"{name:8} {'beside load' if beside_load else 'alone':11} median cost {statistics.median(cost) / 1e6:8.2f} ms, then "
              f"{statistics.median(cost_after) / 1e6:8.2f}; single ones apart by {100 * max(apart):5.1f} % at most; diff "
              f"{'loud' if loud else 'silent'}", flush=True)
        return {"beside_load": beside_load, "before": cost, "after": cost_after, "first_apart": apart[0], "loud": bool(loud)}


def verdict(what, reached, of, share):
    met = reached >= share * of
    print(f"{'met' if met else 'MISSED':7} {what}: {reached} of {of} (asked: {share:.0%})")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tarn", required=True)
    parser.add_argument("--source", required=True, help="the folder of this program")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--recordings", type=int, default=5, help="a side")
    parser.add_argument("--only", choices=["same", "more"])
    parser.add_argument("--json")
    settings = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory(prefix="tarn-pairs-") as folder:
        bench = Bench(settings, folder)
        if settings.only != "more":
            result["same"] = [bench.pair(f"same{i}", ROUNDS, ROUNDS, i % 2 == 1) for i in range(settings.pairs)]
        if settings.only != "same":
            result["more"] = [bench.pair(f"more{i}", ROUNDS, ROUNDS * 11 // 10, i % 2 == 1)
                              for i in range((settings.pairs + 1) // 2)]
    if settings.json:
        with open(settings.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    met = True
    if "same" in result:
        same = result["same"]
        met &= verdict("headlines of two recordings within 15 %", sum(one["first_apart"] <= HEADLINE_WITHIN for one in same),
                       len(same), 1)
        met &= verdict("diff silent for the same command", sum(not one["loud"] for one in same), len(same), SILENT)
    if "more" in result:
        met &= verdict("diff finds a tenth more", sum(one["loud"] for one in result["more"]), len(result["more"]), FOUND)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
