# SPDX-License-Identifier: MIT
"""A session: every round runs every cell once under each of its contenders, contenders in a new random order, each run in
a process of its own; every run and every failure is kept."""

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from peers.contender import Contender, SYSTEM_MALLOC
from report.results import TWIN, Results
from runner.launch import Launcher, RunFailed
from runner.progress import Progress
from runner.selection import Patterns

Figures = dict[str, float | str]


@dataclass(frozen=True)
class Task:
    """A contender's run in a cell: a command, and how its figures are read from the launcher's report and files."""

    contender: str
    kind: str  # tarn, peer, malloc, reference, or twin: a contender once more, whose difference is the noise
    command: tuple[str, ...]
    read: Callable[[dict, Launcher], Figures]
    malloc: Contender = SYSTEM_MALLOC  # what is preloaded
    environment: dict[str, str] = field(default_factory=dict)
    processors: int | None = None  # the process may use only so many

    def measure(self, launcher: Launcher, touch: bool) -> Figures:
        return self.read(launcher.run(self.command, self.malloc, self.environment, self.processors, touch), launcher)


@dataclass(frozen=True)
class Cell:
    """A scene with its parameters, and who runs in it."""

    scene: str
    key: str
    tasks: tuple[Task, ...]
    note: str = ""  # one line for --list
    prepare: Callable[[], object] = lambda: None  # makes inputs
    touch: bool = True  # whether memory is touched and released before a run
    twin: bool = False  # the first contender runs under a second name, too
    once: bool = False  # only the first round runs it: its figures are counts
    warm_up: bool = False  # one run before the first round does not count: files come into the page cache

    @property
    def name(self) -> str:
        return f"{self.scene} {self.key}".rstrip()


def select(cells: list[Cell], scenes: Patterns, contenders: Patterns) -> list[Cell]:
    """The cells whose scene or parameters match, with the contenders that match, and with the twins of these."""
    scenes.check("scene", [name for cell in cells for name in (cell.scene, cell.key)])
    contenders.check("contender", [task.contender for cell in cells for task in cell.tasks])
    found = []
    for cell in cells:
        tasks = tuple(task for task in cell.tasks if contenders.match(task.contender))
        if tasks and cell.twin:
            tasks = (*tasks, replace(tasks[0], contender=tasks[0].contender + TWIN, kind="twin"))
        if tasks and scenes.match(cell.scene, cell.key):
            found.append(replace(cell, tasks=tasks))
    return found


class Session:
    """Fills results.runs and results.failures."""

    def __init__(self, launcher: Launcher, results: Results, seed: int):
        self.launcher = launcher
        self.results = results
        self.random = random.Random(seed)
        self.expected: dict[str, str] = {}  # a cell's result, which must be the same under every contender
        self.broken: set[tuple[str, str]] = set()

    def prepare(self, cells: list[Cell]) -> list[Cell]:
        """Those that can be measured; the others become notices."""
        usable = []
        for cell in cells:
            try:
                cell.prepare()
                usable.append(cell)
            except (OSError, subprocess.CalledProcessError) as error:
                self.results.notices.append(f"{cell.name} left out: its input could not be made: {error}")
        return usable

    def measure(self, cells: list[Cell], rounds: int, progress: Progress) -> None:
        for round_number in range(rounds):
            for cell in cells:
                if round_number > 0 and cell.once:
                    continue
                if round_number == 0 and cell.warm_up:
                    self.warm_up(cell)
                for task in self.random.sample(cell.tasks, len(cell.tasks)):
                    if (cell.name, task.contender) not in self.broken:
                        self.one_run(cell, task, round_number, progress)
                    progress.step(f"round {round_number + 1}/{rounds}  {cell.name}  {task.contender}")

    def warm_up(self, cell: Cell) -> None:
        """Under the system's malloc where that takes part, so that its result is the one that all others must give."""
        reference = next((task for task in cell.tasks if task.malloc.library is None), cell.tasks[0])
        try:
            self.expected[cell.name] = reference.measure(self.launcher, cell.touch).get("result", "")
        except (RunFailed, OSError, ValueError):
            pass  # the first counted run says what is wrong

    def one_run(self, cell: Cell, task: Task, round_number: int, progress: Progress) -> None:
        entry = {"scene": cell.scene, "cell": cell.key, "contender": task.contender, "round": round_number}
        try:
            figures = task.measure(self.launcher, cell.touch)
            result = figures.get("result", "")
            expected = self.expected.setdefault(cell.name, result)
            if result != expected:
                raise RunFailed(f"gave another result ({result}) than the runs before ({expected})")
        except (RunFailed, OSError, ValueError) as error:
            self.broken.add((cell.name, task.contender))
            self.results.failures.append({**entry, "reason": str(error)})
            progress.note(f"FAILED: {cell.name} under {task.contender}: {error}")
            return
        self.results.runs.append({**entry, "figures": figures})
