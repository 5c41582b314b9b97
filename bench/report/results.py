# SPDX-License-Identifier: MIT
"""The raw results of a session: every run, who took part, on what machine. Read from and written to JSON.

A run is one contender's process in one cell, that is a scene with its parameters; its figures have names."""

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

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

    def cells(self, *scenes: str) -> list[tuple[str, str]]:
        """Scene and cell of what was measured of these scenes."""
        return list(dict.fromkeys((run["scene"], run["cell"]) for run in self.runs if run["scene"] in scenes))

    def values(self, scene: str, cell: str, contender: str, figure: str) -> list[float]:
        """One per round; none where a run failed, even if an earlier round gave a figure."""
        place = {"scene": scene, "cell": cell, "contender": contender}
        if any(place.items() <= failure.items() for failure in self.failures):
            return []
        return [run["figures"][figure] for run in self.runs if place.items() <= run.items() and figure in run["figures"]]

    def column(self, scene: str, cell: str, figure: str) -> dict[str, float]:
        """Medians by contender."""
        all_values = {name: self.values(scene, cell, name, figure) for name in self.kinds}
        return {name: statistics.median(values) for name, values in all_values.items() if values}

    def rounds(self) -> int:
        return max((run["round"] for run in self.runs), default=-1) + 1

    def save(self, path: Path) -> None:
        content = asdict(self)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"format": f"{content.pop('suite')} {VERSION}", **content}, indent=1) + "\n")


def load(path: Path, suite: str) -> Results:
    content = json.loads(path.read_text())
    if content.pop("format", None) != f"{suite} {VERSION}":
        raise ValueError(f"{path} holds no results of the {suite} benchmarks (format {suite} {VERSION})")
    return Results(suite, **content)
