# SPDX-License-Identifier: MIT
"""A row of the matrix: a real program, how it is installed, and one input. The rows are in rows_*.py."""

from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "sources"


@dataclass(frozen=True)
class Program:
    """
    run: a line for bash, in a folder of its own. {with} stands before the program and becomes the way in which tarn comes in;
         what the line prints is the output that must not change. Of a server it is the line that starts it.
    make: a line that makes the input or compiles the source, once, without tarn.
    ready, load, stop: of a server: a line that succeeds when it answers, a line whose output is compared while it runs, and
         the line that ends it (SIGTERM, unless named).
    rounds: where `run` has {rounds}, what stands there. While tarn attaches, which takes a run of some seconds, it is so many
         times as many.
    own: what a profile must name: a regular expression over the lines of `tarn show`. Empty: the program has no names of its own.
    without: the ways that cannot be, each with the reason.
    """
    name: str
    field: str           # language, server, builder, media, or what else sits in a process
    packages: str        # what brings it: Debian's names, or pip:NAME, cargo, npm:NAME
    needs: str           # commands that must be there, py:MODULE of the system's python3, venv:MODULE of $WORLD_VENV, or /path
    run: str
    version: str
    make: str = ""
    ready: str = ""
    load: str = ""
    stop: str = ""
    own: str = ""
    rounds: int = 0
    quick: bool = False
    without: tuple[tuple[str, str], ...] = ()
    seconds: float = 60  # that one run may take under any way

    @property
    def is_server(self) -> bool:
        return bool(self.load)
