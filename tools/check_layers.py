#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that no folder of src/ includes from one above it, and nothing from outside src/ and include/."""

import sys

from project_includes import ROOT, includes_of

# Lowest first: each may include from itself and from what stands before it.
ORDER = ["base", "os", "pages", "central", "thread", "guarded", "runtime", "pool", "recycler", "buffers", "malloc", "gates"]


def problem_with(source, target):
    """What is wrong with `source` including `target`, or None."""
    own = source.relative_to(ROOT / "src").parts[0]
    if target.is_relative_to(ROOT / "include"):
        return None
    if not target.is_relative_to(ROOT / "src"):
        return "the engine includes from src/ and include/ only"
    other = target.relative_to(ROOT / "src").parts[0]
    if ORDER.index(other) > ORDER.index(own):
        return f"{own}/ stands below {other}/; pass what is needed as a parameter, or move the code down"
    return None


def main():
    sources = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in {".hpp", ".cpp", ".h"})
    problems = []
    for source in sources:
        folder = source.relative_to(ROOT / "src").parts[0]
        if folder not in ORDER:
            problems.append(f"{source.relative_to(ROOT)}:1: src/{folder} is not a layer of ORDER in {sys.argv[0]}")
            continue
        for line, target in includes_of(source):
            problem = problem_with(source, target)
            if problem:
                problems.append(f"{source.relative_to(ROOT)}:{line}: {target.relative_to(ROOT)}: {problem}")
    for header in sorted((ROOT / "include").rglob("*.h*")):
        for line, target in includes_of(header):
            if not target.is_relative_to(ROOT / "include"):
                problems.append(f"{header.relative_to(ROOT)}:{line}: a public header includes {target.relative_to(ROOT)}")
    print("\n".join(problems), end="\n" if problems else "")
    if not problems:
        print(f"{len(sources)} files keep the order {' <- '.join(ORDER)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
