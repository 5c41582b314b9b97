# SPDX-License-Identifier: MIT
"""The raw results of a session of scenes (pools, recyclers), and how figures are looked up in them. Read from and
written to JSON."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from report import statistics


@dataclass
class SceneResults:
    FORMAT: ClassVar[str]  # its first word says what was measured

    machine: dict = field(default_factory=dict)
    protocol: dict = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # contender: reference, peer, malloc or tarn
    versions: dict[str, str] = field(default_factory=dict)  # library: version
    runs: list[dict] = field(default_factory=list)  # scene, cell, contender, round, figures
    failures: list[dict] = field(default_factory=list)  # scene, cell, contender, round, reason
    notices: list[str] = field(default_factory=list)

    def values(self, scene: str, cell: str, contender: str, figure: str) -> list[float]:
        """One per round; none where a run failed, even if an earlier round gave a figure."""
        place = {"scene": scene, "cell": cell, "contender": contender}
        if any(place.items() <= failure.items() for failure in self.failures):
            return []
        return [
            run["figures"][figure]
            for run in self.runs
            if place.items() <= run.items() and figure in run["figures"]
        ]

    def median(self, scene: str, cell: str, contender: str, figure: str) -> float | None:
        values = self.values(scene, cell, contender, figure)
        return statistics.median(values) if values else None

    def column(self, scene: str, cell: str, figure: str, *kinds: str) -> dict[str, float]:
        """Medians by contender, of these kinds only if any are named."""
        found = {}
        for name, kind in self.kinds.items():
            if not kinds or kind in kinds:
                value = self.median(scene, cell, name, figure)
                if value is not None:
                    found[name] = value
        return found

    def cells(self, scene: str) -> list[str]:
        return list(dict.fromkeys(run["cell"] for run in self.runs if run["scene"] == scene))

    def rounds(self) -> int:
        return max((run["round"] for run in self.runs), default=-1) + 1

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"format": self.FORMAT, **self.__dict__}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "SceneResults":
        try:
            content = json.loads(path.read_text())
            if not isinstance(content, dict) or content.pop("format", None) != cls.FORMAT:
                raise ValueError(f"it holds no results of the {cls.FORMAT.split()[0]}' benchmarks ({cls.FORMAT})")
            return cls(**content)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
