# SPDX-License-Identifier: MIT
"""What a suite wants to be reached, as data, the table of it, and the table of figures in which a peer was ahead."""

import itertools
from dataclasses import dataclass

from report import statistics
from report.results import Results
from report.table import Table, number

OTHERS = ("peer", "malloc")
# Scene: its figures that compare, and whether more is better.
Compared = dict[str, tuple[tuple[str, ...], bool]]


@dataclass(frozen=True)
class Wanted:
    """A contender's figure in each cell of a scene, or its ratio to another figure."""

    scene: str
    contender: str
    figure: str
    limit: float
    text: str  # {cell} stands for the cell
    over: str | tuple[str, ...] | None = None  # a contender, or the best of these kinds
    over_figure: str | None = None  # where it has another name
    at_most: bool = True
    cells: tuple[str, ...] | None = None  # None: each that was measured
    but: tuple[str, ...] = ()  # of these cells none


@dataclass(frozen=True)
class Goal:
    text: str
    figure: float | None  # None: not measured
    limit: float
    at_most: bool = True
    remark: str = ""

    @property
    def reached(self) -> bool | None:
        if self.figure is None:
            return None
        return self.figure <= self.limit if self.at_most else self.figure >= self.limit


def over(value: float | None, reference: float | None) -> float | None:
    return value / reference if value is not None and reference else None


def best(column: dict[str, float], lowest: bool) -> str | None:
    return (min if lowest else max)(column, key=column.get, default=None)


def goal_of(results: Results, wanted: Wanted, cell: str) -> Goal:
    text = wanted.text.format(cell=cell)
    own = results.median(wanted.scene, cell, wanted.contender, wanted.figure)
    if wanted.over is None:
        return Goal(text, own, wanted.limit, wanted.at_most)
    reference, other = wanted.over_figure or wanted.figure, wanted.over
    if other == wanted.contender:  # both figures are of the same processes, so that each round has a ratio of its own
        pairs = zip(*(results.values(wanted.scene, cell, other, name) for name in (wanted.figure, reference)))
        ratios = [one / another for one, another in pairs if another]
        return Goal(text, statistics.median(ratios) if ratios else None, wanted.limit, wanted.at_most)
    remark = ""
    if isinstance(other, tuple):
        other = remark = best(results.column(wanted.scene, cell, reference, *other), wanted.at_most) or ""
    ratio = over(own, results.median(wanted.scene, cell, other, reference))
    return Goal(text, ratio, wanted.limit, wanted.at_most, remark)


def all_goals(results: Results, wanted: tuple[Wanted, ...]) -> list[Goal]:
    """Those of the scenes and cells that were measured."""
    goals = []
    for (scene, cells), group in itertools.groupby(wanted, key=lambda each: (each.scene, each.cells)):
        block = list(group)
        measured = results.cells(scene)
        for cell in measured if cells is None else [cell for cell in cells if cell in measured]:
            goals += [goal_of(results, each, cell) for each in block if cell not in each.but]
    return goals


def goals_table(goals: list[Goal]) -> Table:
    table = Table("What has to be reached", ["figure", "measured", "wanted", "reached", "against"])
    for goal in goals:
        sign = "at most" if goal.at_most else "at least"
        verdict = {True: "yes", False: "NO", None: "not measured"}[goal.reached]
        table.rows.append([goal.text, number(goal.figure, 3), f"{sign} {goal.limit:.2f}", verdict, goal.remark or "-"])
    table.remarks.append(f"{sum(goal.reached is True for goal in goals)} of {len(goals)} reached")
    return table


BYTES = ("grown", "live", "idle", "ended")
NOTICED_BYTES = 0.5e6  # a difference below is the granularity of pages and spans


def shown(figure: str, value: float) -> str:
    return f"{value / 1e6:.1f} MB" if figure in BYTES else f"{value:.2f}"


def lost(results: Results, compared: Compared) -> list[str]:
    """In words: every figure in which a peer was ahead of the best of tarn's contenders, the worst first."""
    found = []
    for scene, (figures, more_is_better) in compared.items():
        for cell, figure in itertools.product(results.cells(scene), figures):
            lowest = figure in BYTES or not more_is_better
            own, others = (results.column(scene, cell, figure, *kinds) for kinds in (("tarn",), OTHERS))
            if not own or not others:
                continue
            mine, theirs = best(own, lowest), best(others, lowest)
            behind = over(own[mine], others[theirs]) if lowest else over(others[theirs], own[mine])
            if behind is None or behind <= 1.0 or (figure in BYTES and own[mine] - others[theirs] < NOTICED_BYTES):
                continue
            place = " ".join(word for word in (scene, cell, figure) if word)
            values = f"{theirs} {shown(figure, others[theirs])}, {mine} {shown(figure, own[mine])}"
            found.append((behind, f"{place}: {values} ({behind:.2f})"))
    return [text for _, text in sorted(found, reverse=True)]


def lost_table(results: Results, compared: Compared) -> Table:
    table = Table("Where a peer was ahead of tarn", ["figure: who was ahead, the best of tarn's (by what factor)"])
    table.rows = [[line] for line in lost(results, compared)] or [["nowhere"]]
    if any(figure in BYTES for figures, _ in compared.values() for figure in figures):
        table.remarks.append("differences of memory below 0.5 MB are left out")
    return table
