#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the text of all source files: the licence line, no tabs, no blanks at line ends, a line feed at the end. And in
all files: documents that are linked or mentioned (docs/reference/options.md, docs/design/0011) must exist."""

import re
import subprocess
import sys

from project_includes import ROOT

CODE = {".hpp", ".cpp", ".h", ".c", ".py", ".sh", ".cmake"}
LICENCE = "SPDX-License-Identifier: MIT"
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")
MENTION = re.compile(r"(?<![\w/.])docs/(?:[\w-]+/)?[\w.-]+\.md\b|(?<![\w/.])docs/design/\d{4}")


def project_files():
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(ROOT / name for name in names if name and (ROOT / name).is_file())


def is_code(path, first):
    return path.suffix in CODE or path.name == "CMakeLists.txt" or first.startswith("#!")


def document_problems(path, lines):
    for number, line in enumerate(lines, 1):
        if path.suffix == ".md":
            for target in LINK.findall(line):
                if not (path.parent / target).exists():
                    yield number, f"a link to {target}, which does not exist"
        for name in MENTION.findall(line):
            if not any(ROOT.glob(name if name.endswith(".md") else name + "-*.md")):
                yield number, f"{name} does not exist"


def problems_of(path):
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        if path.suffix in CODE:
            yield 1, "not UTF-8"
        return
    lines = text.split("\n")
    yield from document_problems(path, lines)
    if not is_code(path, lines[0]):
        return
    if not any(LICENCE in line for line in lines[:2]):
        yield 1, f"add '{LICENCE}' as a comment in the first line (the second, below #!)"
    if text and not text.endswith("\n"):
        yield len(lines), "no line feed at the end of the file"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if "\t" in line and not lines[0].endswith("make -f"):
            yield number, "a tab; indent with spaces"


def main():
    files = project_files()
    problems = [f"{path.relative_to(ROOT)}:{line}: {what}" for path in files for line, what in problems_of(path)]
    print("\n".join(problems) if problems else f"{len(files)} files keep the rules of text")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
