# SPDX-License-Identifier: MIT
"""Writes the generated part of a Markdown file, between two markers, and leaves the text around it alone."""

import re
from pathlib import Path

BEGIN = "<!-- results: begin (written by bench/run.py; do not edit) -->"
BEGINS = r"<!-- results: begin[^>]*-->"  # earlier versions named other programs
END = "<!-- results: end -->"


def machine_line(machine: dict) -> str:
    return (
        f"{machine.get('processor', 'unknown processor')}, {machine.get('processors', '?')} processors, "
        f"{machine.get('memory_gb', '?')} GB, Linux {machine.get('kernel', '?')}, glibc {machine.get('libc', '?')}, "
        f"transparent huge pages `{machine.get('huge_pages', '?')}`"
    )


def replace_block(path: Path, content: str) -> None:
    """Replaces what stands between the markers; a file without them gets them at its end."""
    text = path.read_text() if path.exists() else "# Benchmarks\n"
    block = f"{BEGIN}\n\n{content}\n\n{END}"
    begin, end = re.search(BEGINS, text), text.find(END)
    if (begin is None) != (end < 0) or (begin and end < begin.start()):
        raise ValueError(f"{path}: the markers of the generated part are damaged; it needs both, in order:\n{BEGIN}\n{END}")
    if begin is None:
        text = f"{text.rstrip()}\n\n{block}\n"
    else:
        text = text[: begin.start()] + block + text[end + len(END) :]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
