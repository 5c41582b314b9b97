# SPDX-License-Identifier: MIT
"""Finds the files of this project that a file includes, for the tools that follow includes."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEARCH = [ROOT / "src", ROOT / "include", ROOT]
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes_of(path):
    """Pairs (line number, included file) for each include of `path` that names a file of this project."""
    text = path.read_text(encoding="utf-8")
    for match in _INCLUDE.finditer(text):
        kind, name = match.groups()
        places = ([path.parent] if kind == '"' else []) + SEARCH
        target = next((place / name for place in places if (place / name).is_file()), None)
        if target is not None and target.resolve().is_relative_to(ROOT):
            yield text.count("\n", 0, match.start()) + 1, target.resolve()


def closure_of(path):
    """`path` and every file of this project that it includes, directly or through others."""
    found, open_files = set(), [path.resolve()]
    while open_files:
        current = open_files.pop()
        if current not in found:
            found.add(current)
            open_files.extend(target for _, target in includes_of(current))
    return found
