# SPDX-License-Identifier: MIT
"""Medians, spreads, ratios and geometric means. A grid is {row: {contender: value}}; a missing cell is
a failed or skipped run and takes part in nothing."""

import math
import statistics
from collections.abc import Iterable

Grid = dict[str, dict[str, float]]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def spread(values: list[float]) -> float:
    """Half the way from the lowest to the highest value, relative to the median: the ± of a figure."""
    middle = median(values)
    return (max(values) - min(values)) / 2 / middle if middle else 0.0


def geometric_mean(values: Iterable[float]) -> float | None:
    """None without values. All values must be above zero."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def best(cells: dict[str, float], among: Iterable[str]) -> tuple[str, float] | None:
    """Name and value of the lowest cell among the given contenders."""
    candidates = [(cells[name], name) for name in among if name in cells]
    if not candidates:
        return None
    value, name = min(candidates)
    return name, value


def ratios_to_best(grid: Grid, among: list[str]) -> Grid:
    """Every cell over the lowest of `among` in its row. Who is not among them may come out below 1. Rows in
    which none of them has a value are left out."""
    result: Grid = {}
    for row, cells in grid.items():
        reference = best(cells, among)
        if reference and reference[1] > 0:
            result[row] = {name: value / reference[1] for name, value in cells.items()}
    return result


def column(grid: Grid, name: str) -> dict[str, float]:
    """One contender's cells by row."""
    return {row: cells[name] for row, cells in grid.items() if name in cells}


def mean_of_column(grid: Grid, name: str, rows: Iterable[str] | None = None) -> float | None:
    wanted = set(grid if rows is None else rows)
    return geometric_mean(value for row, value in column(grid, name).items() if row in wanted)


def worst_row(grid: Grid, name: str) -> tuple[str, float] | None:
    """Row and value of a contender's highest cell."""
    cells = column(grid, name)
    if not cells:
        return None
    row = max(cells, key=lambda each: cells[each])
    return row, cells[row]


def rows_won(grid: Grid, name: str, among: list[str]) -> int:
    """Rows in which `name` has the lowest value of `among` (a tie counts for both)."""
    count = 0
    for cells in grid.values():
        lowest = best(cells, among)
        if lowest and name in cells and cells[name] <= lowest[1]:
            count += 1
    return count


def twin_noise(grid: Grid, name: str, twin_name: str) -> tuple[float, float, str] | None:
    """The same library under two names: mean of their ratio, the largest ratio either way, and its row."""
    ratios = {
        row: cells[twin_name] / cells[name]
        for row, cells in grid.items()
        if name in cells and twin_name in cells and cells[name] > 0
    }
    mean = geometric_mean(ratios.values())
    if mean is None:
        return None
    row = max(ratios, key=lambda each: abs(math.log(ratios[each])))
    return mean, max(ratios[row], 1 / ratios[row]), row
