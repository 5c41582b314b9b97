# SPDX-License-Identifier: MIT
"""Counts the instructions of each path of `paths` under callgrind, and compares them with counts.json.

A count that is more than SLACK above the one in the file is an error: the path has become slower. One that is as much
below it is an error too, so that the file follows. `--write` writes the file. Instruction counts do not depend on what
else the machine does; they do on compiler and processor, so the file has a list per compiler and architecture, and the
check is skipped (77) where it has none.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SLACK = 0.05
LEAST = 0.6  # instructions: an operation whose count depends on addresses may vary by this


def counts(program):
    """{name: instructions per operation}."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        # No second thread, no guarded samples and no period of decay during the run: all would make counts vary.
        environment = dict(os.environ, TARN_BACKGROUND="off", TARN_GUARDED="off", TARN_DECAY_MS="120000")
        result = subprocess.run(["valgrind", "-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                                 f"--callgrind-out-file={out}", program], env=environment, stdout=subprocess.PIPE,
                                check=True, text=True)
        inclusive = inclusive_costs(out.read_text(encoding="utf-8", errors="replace"))
    found = {}
    for line in result.stdout.splitlines():
        number, operations, name = line.split("\t")
        found[name] = round(inclusive[int(number)] / int(operations), 2)
    return found


def inclusive_costs(text):
    """{number: instructions} of the calls of measured<number>: the line after a "calls=" line has the inclusive cost."""
    costs = {}
    callee = None
    after_calls = False
    for line in text.splitlines():
        if line.startswith("cfn="):
            match = re.search(r"measured<(\d+)", line)
            callee = int(match.group(1)) if match else None
        elif line.startswith("calls="):
            after_calls = True
        elif after_calls:
            after_calls = False
            if callee is not None:
                costs[callee] = costs.get(callee, 0) + int(line.split()[-1])
    return costs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--compiler", required=True, help="as in the file: GNU-12 or Clang-16")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        return 77
    path = pathlib.Path(__file__).parent / "counts.json"
    all_counts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    key = f"{options.compiler}, {os.uname().machine}"
    if key not in all_counts and not options.write:
        print(f"skipped: counts.json has no list for {key}; --write makes one")
        return 77
    found = counts(options.program)
    if options.write:
        all_counts[key] = found
        path.write_text(json.dumps(all_counts, indent=2) + "\n", encoding="utf-8")
        return 0
    expected = all_counts[key]
    failed = False
    for name in sorted(expected.keys() | found.keys(), key=list(found | expected).index):
        was, now = expected.get(name), found.get(name)
        bad = was is None or now is None or abs(now - was) > max(SLACK * was, LEAST)
        failed = failed or bad
        print(f"{name:36}{'-' if was is None else was:>10}{'-' if now is None else now:>10}{'  <--' if bad else ''}")
    if failed:
        print(f"instructions per operation differ from counts.json ({key}); if they should: --write")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
