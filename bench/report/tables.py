# SPDX-License-Identifier: MIT
"""The two kinds of tables that all suites have: a row for each cell and a column for each contender, with ratios to the best
of the row; and a row for each contender and a column for each figure. A table is a list of lines of Markdown, which a terminal
shows as well: cells are padded."""

import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

from report.results import TWIN, Results

BEGIN = "<!-- results: begin (written by bench/run.py; do not edit) -->"
END = "<!-- results: end -->"
# What stands in a cell of a table: of scene, cell, contender.
Text = Callable[[str, str, str], str]


def table(title: str, header: list[str], rows: list[list[str]], *remarks: str) -> str:
    widths = [max(map(len, cells)) for cells in zip(header, *rows)]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:]))]) + " |"

    ruler = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
    return "\n".join([f"### {title}", "", line(header), ruler, *map(line, rows), "", *(f"- {each}" for each in remarks)]).strip()


def median(results: Results, figure: str, digits: int = 2, factor: float = 1.0) -> Text:
    def text(scene: str, cell: str, name: str) -> str:
        values = results.values(scene, cell, name, figure)
        return f"{statistics.median(values) * factor:.{digits}f}" if values else "-"

    return text


def spread(results: Results, figure: str, digits: int = 1, factor: float = 1.0) -> Text:
    """The median, and where the rounds lie more than a tenth of it apart, [lowest..highest]."""

    def text(scene: str, cell: str, name: str) -> str:
        values = [value * factor for value in results.values(scene, cell, name, figure)]
        if not values:
            return "-"
        middle = statistics.median(values)
        wide = max(values) - min(values) > middle / 10
        return f"{middle:.{digits}f}" + (f" [{min(values):.{digits}f}..{max(values):.{digits}f}]" if wide else "")

    return text


def by_contender(results: Results, title: str, columns: dict[str, tuple[str, str, Text]], *remarks: str) -> list[str]:
    """`columns`: by heading, scene, cell and text. The order of the rows is that of the first column's figures. No table where
    nothing was measured."""
    if not any((scene, cell) in results.cells(scene) for scene, cell, _ in columns.values()):
        return []
    rows = []
    for name, kind in results.kinds.items():
        texts = [text(scene, cell, name) for scene, cell, text in columns.values()]
        if any(text != "-" for text in texts):
            rows.append([f"{name} (reference)" if kind == "reference" else name, *texts])
    rows.sort(key=lambda row: float((re.match(r"[\d.]+", row[1]) or ["inf"])[0]))
    return [table(title, ["contender", *columns], rows, *remarks)]


def by_cell(results: Results, title: str, scenes: tuple[str, ...], text: Text, names: list[str] | None = None) -> list[str]:
    cells, names = results.cells(*scenes), names or results.names()
    rows = [[cell or scene, *(text(scene, cell, name) for name in names)] for scene, cell in cells]
    return [table(title, ["row", *names], rows)] if rows else []


Grid = dict[tuple[str, str], dict[str, float]]


def ratios(results: Results, scenes: tuple[str, ...], figure: str, among: list[str]) -> Grid:
    """Every cell over the lowest of `among` in its row; who is not among them may come out below 1."""
    columns = {place: results.column(*place, figure) for place in results.cells(*scenes)}
    best = {place: min((column[name] for name in among if name in column), default=0) for place, column in columns.items()}
    return {place: {name: value / best[place] for name, value in column.items()} for place, column in columns.items() if best[place]}


def mean(grid: Grid, name: str, places: Iterable[tuple[str, str]] | None = None) -> float | None:
    """The geometric mean of a contender's ratios."""
    found = [grid[place][name] for place in (grid if places is None else places) if name in grid.get(place, {})]
    return statistics.geometric_mean(found) if found else None


def noise(grid: Grid, name: str) -> list[str]:
    """How far the second name of the same contender lies from it."""
    twins = {place[1]: column[name + TWIN] / column[name] for place, column in grid.items() if {name, name + TWIN} <= column.keys()}
    if not twins:
        return []
    row = max(twins, key=lambda each: abs(twins[each] - 1))
    return [f"noise, {name + TWIN} over {name}: {statistics.geometric_mean(twins.values()):.3f} in the mean, {twins[row]:.2f} in {row}"]


def ratio_table(results: Results, title: str, scenes: tuple[str, ...], figure: str, among: list[str], subject: str) -> list[str]:
    """Ratios with their geometric means and worst rows, and in which rows who was ahead of `subject` by more than a tenth."""
    grid, names = ratios(results, scenes, figure, among), results.originals()
    if not grid:
        return []

    def show(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    rows = [[place[1] or place[0], *(show(column.get(name)) for name in names)] for place, column in grid.items()]
    groups = {"all": list(grid)} | {scene: results.cells(scene) for scene in scenes if len(scenes) > 1}
    for label, places in groups.items():
        rows.append([f"geomean, {label}", *(show(mean(grid, name, places), 3) for name in names)])
    worst = [max(((column[name], place[1]) for place, column in grid.items() if name in column), default=(0, "-")) for name in names]
    rows.append(["worst row", *(f"{value:.2f} {row}" for value, row in worst)])
    behind = sorted(((column[subject], place) for place, column in grid.items() if column.get(subject, 0) > 1.1), reverse=True)
    others = [name for name in among if name != subject]
    lost = [f"{place[1]} {value:.2f} ({min(others, key=lambda name: grid[place].get(name, 9e9))})" for value, place in behind]
    return [table(title, ["row", *names], rows, *noise(grid, subject), f"behind by more than 10 %: {', '.join(lost) or 'nowhere'}")]


def replace_block(path: Path, content: str) -> None:
    """Replaces what stands between the markers of a page; a page without them gets them at its end."""
    text = path.read_text() if path.exists() else "# Benchmarks\n"
    block = f"{BEGIN}\n\n{content}\n\n{END}"
    begin, end = text.find(BEGIN), text.find(END)
    if (begin < 0) != (end < 0) or end < begin:
        raise ValueError(f"{path}: the markers of the generated part are damaged; it needs both, in order:\n{BEGIN}\n{END}")
    text = text[:begin] + block + text[end + len(END) :] if begin >= 0 else f"{text.rstrip()}\n\n{block}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
