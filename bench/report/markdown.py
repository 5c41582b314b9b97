# SPDX-License-Identifier: MIT
"""Writes the generated part of a Markdown file, between two markers, and leaves the text around it alone."""

from pathlib import Path

from report import tables
from report.results import Results

BEGIN = "<!-- results: begin (written by bench/run.py --markdown; do not edit) -->"
END = "<!-- results: end -->"


def machine_line(machine: dict) -> str:
    return (
        f"{machine.get('processor', 'unknown processor')}, {machine.get('processors', '?')} processors, "
        f"{machine.get('memory_gb', '?')} GB, Linux {machine.get('kernel', '?')}, glibc {machine.get('libc', '?')}, "
        f"transparent huge pages `{machine.get('huge_pages', '?')}`"
    )


def contender_line(results: Results) -> str:
    words = [
        f"{each['name']} {each['version']}".strip() for each in results.contenders if not each["twin_of"]
    ]
    return "Contenders: " + ", ".join(words) + "."


def generated(results: Results) -> str:
    parts = [
        f"{machine_line(results.machine)}. {results.rounds()} rounds, {results.machine.get('date', '')}.",
        contender_line(results),
        *(f"Note: {line}" for line in tables.summary(results)),
        *(table.markdown() for table in tables.all_tables(results)),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def update(path: Path, results: Results) -> None:
    """Replaces what stands between the markers; a file without them gets them at its end."""
    replace_block(path, generated(results), BEGIN)


def replace_block(path: Path, content: str, begin_marker: str) -> None:
    text = path.read_text() if path.exists() else "# Benchmarks\n"
    block = f"{begin_marker}\n\n{content}\n\n{END}"
    begin, end = text.find(begin_marker), text.find(END)
    if (begin < 0) != (end < 0) or end < begin:
        raise ValueError(
            f"{path}: the markers of the generated part are damaged; it needs both, in order:\n"
            f"{begin_marker}\n{END}"
        )
    if begin < 0:
        text = f"{text.rstrip()}\n\n{block}\n"
    else:
        text = text[:begin] + block + text[end + len(END) :]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
