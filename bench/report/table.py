# SPDX-License-Identifier: MIT
"""A table, as text for a terminal and as Markdown, and the two ways in which a session's figures become one: contenders in
rows, or contenders in columns."""

from collections.abc import Callable
from dataclasses import dataclass, field

from report import statistics
from report.results import Results


@dataclass
class Table:
    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def text(self) -> str:
        widths = [max(map(len, cells)) for cells in zip(self.header, *self.rows)]

        def line(cells: list[str]) -> str:
            padded = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))
            return "  ".join([cells[0].ljust(widths[0]), *padded]).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [self.title, rule, line(self.header), rule, *map(line, self.rows), rule, *self.remarks]
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        def line(cells: list[str]) -> str:
            return "| " + " | ".join(cells) + " |"

        ruler = "|---|" + "---:|" * (len(self.header) - 1)
        body = [f"### {self.title}", "", line(self.header), ruler, *map(line, self.rows), ""]
        return "\n".join(body + [f"- {remark}" for remark in self.remarks]) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


# What stands in one column, by contender or by cell.
Text = Callable[[str], str]


def spread(results: Results, scene: str, cell: str, figure: str, digits: int = 1, factor: float = 1.0) -> Text:
    """Median [lowest..highest] of each contender."""

    def text(name: str) -> str:
        values = [value * factor for value in results.values(scene, cell, name, figure)]
        middle = number(statistics.median(values) if values else None, digits)
        return middle if len(values) < 2 else f"{middle} [{min(values):.{digits}f}..{max(values):.{digits}f}]"

    return text


def contender_table(results: Results, title: str, columns: dict[str, Text], names: list[str], first="contender") -> Table:
    """A row for each of the names, a column for each of the texts."""
    table = Table(title, [first, *columns])
    for name in names:
        label = f"{name} (reference)" if results.kinds[name] == "reference" else name
        table.rows.append([label, *(text(name) for text in columns.values())])
    return table


def sorted_names(results: Results, scene: str, cell: str, figure: str, more: bool = False) -> list[str]:
    """Who has the figure, the best first."""
    column = results.column(scene, cell, figure)
    return sorted(column, key=column.get, reverse=more)


def cell_table(title: str, grid: statistics.Grid, names: list[str], text: Callable[[str, str], str], first="row") -> Table:
    """A row for each cell of the grid, a column for each of the names."""
    table = Table(title, [first, *names])
    table.rows = [[cell, *(text(cell, name) if name in cells else "-" for name in names)] for cell, cells in grid.items()]
    return table
