# SPDX-License-Identifier: MIT
"""What a goal is, in which table goals are shown, and how every figure is found in which somebody else was ahead."""

from dataclasses import dataclass

from report.scene_results import SceneResults
from report.tables import Table, number

OTHERS = ("peer", "malloc")
# Scene: its figures that compare, and whether more is better.
Compared = dict[str, tuple[tuple[str, ...], bool]]


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


def table_of(goals: list[Goal]) -> Table:
    table = Table("What has to be reached", ["figure", "measured", "wanted", "reached", "against"])
    for goal in goals:
        sign = "at most" if goal.at_most else "at least"
        verdict = {True: "yes", False: "NO", None: "not measured"}[goal.reached]
        table.rows.append(
            [goal.text, number(goal.figure, 3), f"{sign} {goal.limit:.2f}", verdict, goal.remark or "-"]
        )
    reached = sum(goal.reached is True for goal in goals)
    table.remarks.append(f"{reached} of {len(goals)} reached")
    return table


BYTES = ("grown", "live", "idle", "ended")
NOTICED_BYTES = 0.5e6  # a difference below is the granularity of pages and spans


def shown(figure: str, value: float) -> str:
    return f"{value / 1e6:.1f} MB" if figure in BYTES else f"{value:.2f}"


def lost(results: SceneResults, compared: Compared) -> list[str]:
    """In words: every figure in which a peer was ahead of the best of tarn's contenders, the worst first."""
    found = []
    for scene, (figures, more_is_better) in compared.items():
        for cell in results.cells(scene):
            for figure in figures:
                more = more_is_better and figure not in BYTES
                own = results.column(scene, cell, figure, "tarn")
                others = results.column(scene, cell, figure, *OTHERS)
                if not own or not others:
                    continue
                choose = max if more else min
                mine, theirs = choose(own, key=own.get), choose(others, key=others.get)
                behind = over(others[theirs], own[mine]) if more else over(own[mine], others[theirs])
                if behind is None or behind <= 1.0:
                    continue
                if figure in BYTES and own[mine] - others[theirs] < NOTICED_BYTES:
                    continue
                place = " ".join(word for word in (scene, cell, figure) if word)
                values = f"{theirs} {shown(figure, others[theirs])}, {mine} {shown(figure, own[mine])}"
                found.append((behind, f"{place}: {values} ({behind:.2f})"))
    return [text for _, text in sorted(found, reverse=True)]
