# SPDX-License-Identifier: MIT
"""What a suite consists of, and what all suites' reports have in common."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from report import goals
from report.markdown import machine_line
from report.results import Results
from report.table import Table
from runner.session import Cell

BUILD_FIRST = "build the benchmarks first (./dev bench does, or cmake --preset bench and cmake --build --preset bench)"


@dataclass
class Plan:
    """What can be measured here; what cannot is a notice."""

    cells: list[Cell] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Suite:
    name: str
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    plan: Callable[[argparse.Namespace, Path], Plan]  # the folder is for inputs
    tables: Callable[[Results], list[Table]]
    wanted: tuple[goals.Wanted, ...] = ()
    compared: goals.Compared = field(default_factory=dict)
    closing: Callable[[Results], list[str]] = lambda results: []  # lines below the tables
    draw: Callable[[Results, Path], list[Path]] | None = None
    page: str | None = None  # in docs/explanation/: a session of everything replaces its tables
    always: tuple[str, ...] = ()  # scenes that --scenes does not leave out
    goals_decide: bool = False  # whether a goal that is missed makes the exit status 1, but for --quick
    # Defaults of options; those of --quick come second.
    rounds: tuple[int, int] = (5, 1)
    scale: tuple[int, int] = (1000, 20)
    touch: tuple[int, int] = (0, 0)
    limit: int = 60
    # What a page tells beside the tables.
    moment: str = ""
    versions_of_contenders: bool = False  # else of libraries, which several contenders share
    note: str = "- "

    def all_tables(self, results: Results) -> list[Table]:
        if not results.runs:
            return []
        tables = self.tables(results)
        if self.wanted:
            tables.append(goals.goals_table(goals.all_goals(results, self.wanted)))
        return tables + ([goals.lost_table(results, self.compared)] if self.compared else [])

    def summary(self, results: Results) -> list[str]:
        """What went wrong or is missing, and the suite's own lines."""
        lines = [f"note: {notice}" for notice in results.notices]
        for each in results.failures:
            place = f"{each['scene']} {each['cell']}".rstrip()
            lines.append(f"FAILED: {place} under {each['contender']}, round {each['round'] + 1}: {each['reason']}")
        if results.protocol.get("quick"):
            lines.append("note: a quick session, with a small part of the work: no figures to quote")
        return lines + self.closing(results)

    def generated(self, results: Results) -> str:
        """What stands between the markers of the suite's page."""
        load = results.machine.get("load_before", ["?"])[0]
        moment = self.moment.format(date=results.machine.get("date", ""), load=load)
        measured = {run["contender"] for run in results.runs} if self.versions_of_contenders else results.versions
        versions = ", ".join(f"{name} {version}".strip() for name, version in results.versions.items() if name in measured)
        heading = "Contenders" if self.versions_of_contenders else "Versions"
        parts = [
            f"{machine_line(results.machine)}. {results.rounds()} rounds{moment}.",
            f"{heading}: {versions}." if versions else "",
            *(f"{self.note}{line}" for line in self.summary(results)),
            *(table.markdown() for table in self.all_tables(results)),
        ]
        return "\n\n".join(part.strip() for part in parts if part.strip())

    def missed(self, results: Results) -> bool:
        counts = self.goals_decide and not results.protocol.get("quick")
        return counts and any(each.reached is False for each in goals.all_goals(results, self.wanted))
