# SPDX-License-Identifier: MIT
"""What a suite consists of."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from report.results import Results
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
    tables: Callable[[Results], list[str]]
    details: Callable[[Results], list[str]] = lambda results: []  # more tables, for the terminal alone: not in a page
    draw: Callable[[Results, Path], list[Path]] | None = None
    # Defaults of options; those of --quick come second.
    rounds: tuple[int, int] = (5, 1)
    scale: tuple[int, int] = (1000, 20)
    touch: tuple[int, int] = (0, 0)
    limit: int = 60
