# SPDX-License-Identifier: MIT
"""The scenes of the pool benchmarks, and a session that runs them: every round each cell under each of its
contenders once, in random order, each run a process of its own."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from peers import pools as peers
from report.pool_results import PoolResults
from runner.launch import Launcher, RunFailed
from runner.progress import Progress

FULL_SCALE = 1000  # per mille of the full work
QUICK_SCALE = 30

# Scene: what the program is given beside the contender and the scale. One cell each.
SCENES: dict[str, list[tuple[str, ...]]] = {
    "pairs": [()],
    "containers": [
        (container, count) for count in ("5000", "1000000") for container in ("unordered_set", "list", "map")
    ],
    "threads": [("1",), ("2",), ("4",), ("8",), ("16",)],
    "memory": [()],
    "ring": [()],
    "slots": [("1",), ("2",), ("4",)],
}
# Where resident bytes are the only figure, what the system's free memory was before does not matter.
UNTOUCHED = {"memory"}


@dataclass(frozen=True)
class Cell:
    scene: str
    arguments: tuple[str, ...]
    program: Path
    contenders: tuple[peers.PoolContender, ...]

    @property
    def key(self) -> str:
        return " ".join(self.arguments)


def program_of(scene: str, build_dir: Path) -> Path:
    return build_dir / "bench" / f"pools_{scene}"


def cells(
    scenes: list[str], build_dir: Path, tarn: Path | None, patterns: str | None, notices: list[str]
) -> list[Cell]:
    """What can be measured here; what cannot becomes a notice."""
    libraries = peers.mallocs(build_dir, tarn, notices)
    found = []
    names: set[str] = set()
    for scene in scenes:
        program = program_of(scene, build_dir)
        if not program.exists():
            raise peers.ContenderError(
                f"{program} is missing; build the benchmarks first (./dev bench does, or "
                "cmake --preset bench and cmake --build --preset bench)"
            )
        everyone = peers.contenders_of(program, libraries)
        names |= {each.program_name for each in everyone}
        chosen = tuple(peers.matching(everyone, patterns))
        if chosen:
            found += [Cell(scene, arguments, program, chosen) for arguments in SCENES[scene]]
    if set(scenes) == set(SCENES):
        notices += peers.missing_libraries(names)
    return found


class PoolSession:
    """Fills results.runs: one entry per round, cell and contender."""

    def __init__(self, launcher: Launcher, results: PoolResults, seed: int, scale: int):
        self.launcher = launcher
        self.plain = Launcher(launcher.program, launcher.scratch, 0, launcher.limit_seconds)
        self.results = results
        self.random = random.Random(seed)
        self.scale = scale
        self.broken: set[tuple[str, str, str]] = set()

    def measure(self, todo: list[Cell], rounds: int, progress: Progress) -> None:
        for round_number in range(rounds):
            for cell in todo:
                for contender in self.random.sample(cell.contenders, len(cell.contenders)):
                    where = f"round {round_number + 1}/{rounds}  {cell.scene} {cell.key}  {contender.label}"
                    progress.show(where)
                    if (cell.scene, cell.key, contender.label) not in self.broken:
                        self.one_run(cell, contender, round_number, progress)
                    progress.step(where)

    def one_run(
        self, cell: Cell, contender: peers.PoolContender, round_number: int, progress: Progress
    ) -> None:
        command = [str(cell.program), contender.program_name, *cell.arguments, str(self.scale)]
        entry = {
            "scene": cell.scene,
            "cell": cell.key,
            "contender": contender.label,
            "round": round_number,
        }
        launcher = self.plain if cell.scene in UNTOUCHED else self.launcher
        try:
            launcher.run(command, contender.malloc)
            figures = json.loads(launcher.output.read_text())
        except (RunFailed, OSError, ValueError) as error:
            self.broken.add((cell.scene, cell.key, contender.label))
            self.results.failures.append({**entry, "reason": str(error)})
            progress.note(f"FAILED: {cell.scene} {cell.key}, {contender.label}: {error}")
            return
        self.results.runs.append({**entry, "figures": figures})
