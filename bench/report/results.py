# SPDX-License-Identifier: MIT
"""The raw results of a session: every run, who took part, on what machine. Read from and written to JSON.

A run is one contender's process in one cell, that is a scene with its parameters; its figures have names."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from report import statistics

VERSION = 1
TWIN = " again"  # ends the second name of a contender that runs under two names


@dataclass
class Results:
    suite: str
    machine: dict = field(default_factory=dict)
    protocol: dict = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # contender: tarn, peer, malloc, reference or twin
    versions: dict[str, str] = field(default_factory=dict)  # contender or library: version
    runs: list[dict] = field(default_factory=list)  # scene, cell, contender, round, figures
    failures: list[dict] = field(default_factory=list)  # scene, cell, contender, round, reason
    notices: list[str] = field(default_factory=list)

    def names(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.kinds.items() if not kinds or kind in kinds]

    def originals(self) -> list[str]:
        """All contenders but second names."""
        return [name for name, kind in self.kinds.items() if kind != "twin"]

    def values(self, scene: str, cell: str, contender: str, figure: str) -> list[float]:
        """One per round; none where a run failed, even if an earlier round gave a figure."""
        place = {"scene": scene, "cell": cell, "contender": contender}
        if any(place.items() <= failure.items() for failure in self.failures):
            return []
        return [run["figures"][figure] for run in self.runs if place.items() <= run.items() and figure in run["figures"]]

    def median(self, scene: str, cell: str, contender: str, figure: str) -> float | None:
        values = self.values(scene, cell, contender, figure)
        return statistics.median(values) if values else None

    def column(self, scene: str, cell: str, figure: str, *kinds: str) -> dict[str, float]:
        """Medians by contender, of these kinds only if any are named."""
        medians = {name: self.median(scene, cell, name, figure) for name in self.names(*kinds)}
        return {name: value for name, value in medians.items() if value is not None}

    def cells(self, *scenes: str) -> list[str]:
        return list(dict.fromkeys(run["cell"] for run in self.runs if run["scene"] in scenes))

    def grid(self, scenes: tuple[str, ...], figure: str, reduce=statistics.median) -> statistics.Grid:
        """{cell: {contender: reduced value}}."""
        collected: dict[str, dict[str, list[float]]] = {}
        for run in self.runs:
            if run["scene"] in scenes:
                collected.setdefault(run["cell"], {}).setdefault(run["contender"], []).append(run["figures"][figure])
        failed = {(each["cell"], each["contender"]) for each in self.failures if each["scene"] in scenes}
        return {
            cell: {name: reduce(values) for name, values in cells.items() if (cell, name) not in failed}
            for cell, cells in collected.items()
        }

    def rounds(self) -> int:
        return max((run["round"] for run in self.runs), default=-1) + 1

    def save(self, path: Path) -> None:
        content = asdict(self)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"format": f"{content.pop('suite')} {VERSION}", **content}, indent=1) + "\n")


def load(path: Path, suite: str) -> Results:
    try:
        content = json.loads(path.read_text())
        if suite == "malloc" and isinstance(content, dict) and content.get("format") == 1:
            return from_rows(content)
        if not isinstance(content, dict) or content.pop("format", None) != f"{suite} {VERSION}":
            raise ValueError(f"it holds no results of the {suite} benchmarks (format {suite} {VERSION})")
        return Results(suite, **content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error!r}" if isinstance(error, KeyError) else f"{path}: {error}") from error


def from_rows(content: dict) -> Results:
    """Sessions of malloc that were stored as format 1 had rows in place of scenes and cells, and two more lists of runs."""
    groups = {row["name"]: row["group"] for row in content["rows"]}

    def place(entry: dict) -> dict:
        row = entry.pop("row")
        scene, cell = (row, "") if row.startswith("bench_") else ("scaling" if "@" in row else groups.get(row, "real"), row)
        return {"scene": scene, "cell": cell, "contender": entry.pop("contender"), "round": entry.pop("round")}

    runs = [{**place(run), "figures": run} for run in content["runs"] + content["scaling"]]
    for call in content["micro"]:
        scene = "bench_cycles" if call["unit"] == "ticks per pair" else "bench_micro"
        figures = {f"{call['test']}, {call['unit']}": call["value"]}
        runs.append({"scene": scene, "cell": "", "contender": call["contender"], "round": 0, "figures": figures})
    return Results(
        "malloc",
        machine=content["machine"],
        protocol=content["protocol"],
        kinds={
            each["name"]: "twin" if each["twin_of"] else "peer" if each["peer"] else "tarn" for each in content["contenders"]
        },
        versions={each["name"]: each["version"] for each in content["contenders"] if not each["twin_of"]},
        runs=runs,
        failures=[{**place(failure), **failure} for failure in content["failures"]],
        notices=content["notices"],
    )
