# SPDX-License-Identifier: MIT
"""The real programs of the suite malloc, each with its Debian package. Redis has a file of its own: it is two programs."""

import glob
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from peers.contender import Contender
from runner.launch import read_wall_time
from runner.session import Cell
from suites import inputs, redis


@dataclass(frozen=True)
class Program:
    """A command; in its words and settings, {input} stands for the file that make() writes, {folder} for its folder."""

    name: str
    note: str
    candidates: tuple[str, ...]  # names on the PATH, or patterns of files; the first that is there counts
    package: str
    input: str
    make: Callable[[Path], None]
    words: tuple[str, ...] = ("{input}",)
    environment: dict[str, str] = field(default_factory=dict)

    def find(self) -> str | None:
        for name in self.candidates:
            found = shutil.which(name) or next(iter(sorted(glob.glob(name), reverse=True)), None)
            if found:
                return found
        return None

    def prepared(self, folder: Path) -> tuple[list[str], dict[str, str], Callable[[], None]]:
        """The command and its variables, with the input in `folder`, and what writes that."""
        path = folder / self.input

        def fill(text: str) -> str:
            return text.replace("{input}", str(path)).replace("{folder}", str(folder))

        environment = {name: fill(value) for name, value in self.environment.items()}
        return [self.find(), *map(fill, self.words)], environment, partial(self.make, path)


CLANG = ("clang++", "/usr/bin/clang++-[0-9]*", "/usr/lib/llvm-*/bin/clang++")
CHECK = ("-std=c++20", "-fsyntax-only", "{input}")  # no code is generated, so allocation weighs most
# Its malloc calls are the system's; other builds of Python bring their own libraries.
DEBIAN_PYTHON = "/usr/bin/python3"
GIT_ENVIRONMENT = {  # git reads no settings but these
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "{folder}",
}
GHOSTSCRIPT = ("-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r110", "-dGraphicsAlphaBits=4", "-dTextAlphaBits=4")

PROGRAMS = (
    Program("g++", "g++ -fsyntax-only on a heavy translation unit", ("g++",), "g++",
            "heavy.cpp", inputs.write_translation_unit, CHECK),
    Program("clang++", "clang++ -fsyntax-only on the same", CLANG, "clang", "heavy.cpp", inputs.write_translation_unit, CHECK),
    Program("python", "python3 with PYTHONMALLOC=malloc: objects, dictionaries, JSON", (DEBIAN_PYTHON,), "python3",
            "objects.py", inputs.write(inputs.PYTHON_PROGRAM), ("-S", "{input}"),  # with -I it would not read the variable
            {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}),
    Program("sqlite", "sqlite3 in memory: inserts, joins, updates", ("sqlite3",), "sqlite3",
            "script.sql", inputs.write(inputs.SQL_SCRIPT), ("-batch", "-init", "/dev/null", ":memory:", ".read {input}")),
    Program("lua", "lua: tables, closures, strings", ("lua5.4", "lua5.3", "lua"), "lua5.4",
            "tables.lua", inputs.write(inputs.LUA_PROGRAM)),
    Program("git-log-p", "git log -p over a generated history", ("git",), "git",
            "history.git", inputs.make_history, ("-C", "{input}", "log", "-p", "--no-color", "main"), GIT_ENVIRONMENT),
    # The result is the pictures, bit for bit.
    Program("gs", "ghostscript renders text and curves", ("gs",), "ghostscript",
            "pages.ps", inputs.write_postscript, (*GHOSTSCRIPT, "-sOutputFile=-", "{input}")),
)


def cells(contenders: list[Contender], folder: Path, tasks, notices: list[str]) -> list[Cell]:
    """Those whose program is installed."""
    found = []
    for each in PROGRAMS:
        if not each.find():
            notices.append(f"real {each.name} left out: not installed (Debian: apt-get install {each.package})")
            continue
        command, environment, make = each.prepared(folder)
        runs = tasks(contenders, command, read_wall_time, environment)
        found.append(Cell("real", each.name, runs, each.note, make, twin=True, warm_up=True))
    if all(map(shutil.which, redis.PROGRAMS)):
        runs = tasks(contenders, [shutil.which("redis-server")], read_wall_time, task=redis.RedisTask)
        found.append(Cell("real", "redis", runs, redis.NOTE, twin=True, warm_up=True))
    else:
        notices.append(f"real redis left out: not installed (Debian: apt-get install {redis.PACKAGES})")
    return found
