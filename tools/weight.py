#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weighs the rooms of this repository against tools/weight.txt.

A room's weight is its number of code lines: lines that are neither blank nor only a comment; of docs/, words of Markdown.
A room that grows beyond its budget fails the check. Delete something, or raise the budget in the same commit and give
the reason in the commit's message. A room far below its budget is named, so that the budget follows it down.

  tools/weight.py          compares, and prints what differs
  tools/weight.py --all    prints every room
  tools/weight.py --write  writes the budgets anew, each a little above its room's weight
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools/weight.txt"
DIVIDED = {"src", "profiler", "cli", "tests", "bench", "docs"}  # each folder in them is a room
SLASHES = {".c", ".cpp", ".h", ".hpp", ".ts", ".mjs", ".js", ".css", ".go", ".java", ".rs", ".cs"}
HASHES = {".py", ".sh", ".cmake", ".txt", ".yml", ".yaml", ".toml", ".rb", ""}
OTHERS = {".in", ".html", ".pml", ".ml", ".hs", ".map"}


def code_lines(path, text):
    if path.suffix in SLASHES:
        text = re.sub(r"^\s*/\*.*?\*/", "", text, flags=re.M | re.S)
    comment = "//" if path.suffix in SLASHES else "#" if path.suffix in HASHES else None
    lines = map(str.strip, text.splitlines())
    return sum(1 for line in lines if line and not (comment and line.startswith(comment)))


def room_of(path):
    parts = path.parts
    if len(parts) == 1:
        return "root"
    return "/".join(parts[:2]) if parts[0] in DIVIDED and len(parts) > 2 else parts[0]


def weights():
    """The weight of each room, by name."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    sums = collections.Counter()
    for path in map(pathlib.Path, sorted(filter(None, names))):
        if not (ROOT / path).is_file():
            continue  # deleted, and not yet committed
        if path.parts[0] == "docs":
            if path.suffix == ".md":
                sums[room_of(path)] += len((ROOT / path).read_text().split())
        elif path.suffix in SLASHES | HASHES | OTHERS:
            sums[room_of(path)] += code_lines(path, (ROOT / path).read_text(errors="replace"))
    return sums


def rows():
    """The table's rows as (name, budget); those of other units than lines and words are named minutes:…"""
    for line in TABLE.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            yield words[0], int(words[1])


def write(sums):
    kept = [line for line in TABLE.read_text().splitlines() if line.startswith(("#", "minutes:"))]
    step = lambda weight: 10 if weight < 1000 else 50 if weight < 10000 else 100
    budgets = [f"{room:<22} {-(-weight // step(weight)) * step(weight)}" for room, weight in sorted(sums.items())]
    TABLE.write_text("\n".join(kept + budgets) + "\n")


def main():
    if len(sys.argv) > 2 or set(sys.argv[1:]) - {"--all", "--write"}:
        print(__doc__)
        return 2
    sums = weights()
    if "--write" in sys.argv:
        write(sums)
    budgets = {room: budget for room, budget in rows() if not room.startswith("minutes:")}
    failed = False
    for room in sorted(sums | budgets):
        weight, budget = sums[room], budgets.get(room)
        note = ""
        if budget is None:
            note, failed = "is not in tools/weight.txt", True
        elif weight > budget:
            note, failed = f"is above its budget of {budget}", True
        elif weight < 0.9 * budget - 50:
            note = f"is far below its budget of {budget}; lower that"
        if note or "--all" in sys.argv:
            print(f"{room}: {weight} {note}".rstrip())
    for tree in sorted(DIVIDED) if "--all" in sys.argv else []:
        print(f"{tree} in all: {sum(weight for room, weight in sums.items() if room.split('/')[0] == tree)}")
    if failed:
        print("Delete something, or change tools/weight.txt in the same commit (tools/weight.py --write) and give the"
              " reason in its message.")
    return failed


if __name__ == "__main__":
    sys.exit(main())
