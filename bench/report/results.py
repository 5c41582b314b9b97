# SPDX-License-Identifier: MIT
"""The raw results of a session: every run, who took part, on what machine. Read from and written to JSON."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from report import statistics

FORMAT = 1


@dataclass
class Results:
    machine: dict = field(default_factory=dict)
    protocol: dict = field(default_factory=dict)
    contenders: list[dict] = field(default_factory=list)  # name, library, version, twin_of, peer
    rows: list[dict] = field(default_factory=list)  # name, group
    runs: list[dict] = field(default_factory=list)  # row, contender, round, seconds, cpu, rss, minor, …
    failures: list[dict] = field(default_factory=list)  # row, contender, round, reason
    notices: list[str] = field(default_factory=list)
    micro: list[dict] = field(default_factory=list)  # test, contender, value, unit
    scaling: list[dict] = field(default_factory=list)  # like runs; the row is PROGRAM@THREADS

    def names(self) -> list[str]:
        return [contender["name"] for contender in self.contenders]

    def peers(self) -> list[str]:
        return [contender["name"] for contender in self.contenders if contender["peer"]]

    def originals(self) -> list[str]:
        """Everyone but second names."""
        return [contender["name"] for contender in self.contenders if not contender["twin_of"]]

    def twin(self) -> tuple[str, str] | None:
        """The library that runs under two names, and its second name."""
        for contender in self.contenders:
            if contender["twin_of"]:
                return contender["twin_of"], contender["name"]
        return None

    def row_names(self, group: str | None = None) -> list[str]:
        return [row["name"] for row in self.rows if group is None or row["group"] == group]

    def grid(self, value: str, reduce=statistics.median, runs: list[dict] | None = None) -> statistics.Grid:
        """{row: {contender: reduced value}}, in the order of the rows."""
        collected: dict[str, dict[str, list[float]]] = {name: {} for name in self.row_names()}
        for run in self.runs if runs is None else runs:
            collected.setdefault(run["row"], {}).setdefault(run["contender"], []).append(run[value])
        failed = {(failure["row"], failure["contender"]) for failure in self.failures}
        return {
            row: {name: reduce(values) for name, values in cells.items() if (row, name) not in failed}
            for row, cells in collected.items()
            if cells
        }

    def rounds(self) -> int:
        return max((run["round"] for run in self.runs), default=-1) + 1

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"format": FORMAT, **self.__dict__}, indent=1) + "\n")


def load(path: Path) -> Results:
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise ValueError(f"{path} holds no results of this benchmark (format {FORMAT})")
    try:
        return Results(**content)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from error
