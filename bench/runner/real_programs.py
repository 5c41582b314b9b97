# SPDX-License-Identifier: MIT
"""The real programs, each with its Debian package. Redis has a file of its own: it is two programs."""

import glob
import shutil
import subprocess
from pathlib import Path

from runner import inputs
from runner.redis import RedisRow
from runner.rows import CommandRow, Row

DEBIAN_PYTHON = (
    "/usr/bin/python3"  # its malloc calls are the system's; other builds bring their own libraries
)
# Git reads no settings but these.
GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


def find_program(*names: str) -> str | None:
    """The first of the names that is on the PATH or, for a pattern, that matches a file."""
    for name in names:
        found = shutil.which(name) or next(iter(sorted(glob.glob(name), reverse=True)), None)
        if found:
            return found
    return None


class ProgramRow(CommandRow):
    """A row that needs one installed program."""

    def __init__(self, name: str, note: str, candidates: tuple[str, ...], package: str):
        super().__init__(name, note)
        self.package = package
        self.program = find_program(*candidates)

    def missing(self) -> str | None:
        return None if self.program else f"not installed (Debian: apt-get install {self.package})"

    def programs(self) -> list[str]:
        return [self.program]


class CompilerRow(ProgramRow):
    """A compiler checks one heavy translation unit; no code is generated, so allocation weighs most."""

    def prepare(self, inputs_folder: Path) -> None:
        source = inputs_folder / "heavy.cpp"
        inputs.write_translation_unit(source)
        self.command = [self.program, "-std=c++20", "-fsyntax-only", str(source)]

    def programs(self) -> list[str]:
        # g++ is a driver; the work is done by the program that it starts.
        asked = subprocess.run(
            [self.program, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=False
        )
        inner = asked.stdout.strip()
        return [self.program, inner] if Path(inner).is_file() else [self.program]


class ScriptRow(ProgramRow):
    """An interpreter runs one generated script."""

    def __init__(
        self,
        name: str,
        note: str,
        candidates: tuple[str, ...],
        package: str,
        file_name: str,
        text: str,
        arguments: tuple[str, ...] = ("{}",),
        environment: dict[str, str] | None = None,
    ):
        super().__init__(name, note, candidates, package)
        self.file_name = file_name
        self.text = text
        self.arguments = arguments
        self.environment = environment or {}

    def prepare(self, inputs_folder: Path) -> None:
        script = inputs_folder / self.file_name
        script.write_text(self.text)
        self.command = [self.program, *(word.replace("{}", str(script)) for word in self.arguments)]


class GitRow(ProgramRow):
    """git log -p over a history that git fast-import makes from a generated stream."""

    def prepare(self, inputs_folder: Path) -> None:
        repository = inputs_folder / "history.git"
        if not repository.exists():
            git = [self.program, "-C", str(inputs_folder)]
            subprocess.run([*git, "init", "-q", "--bare", "-b", "main", str(repository)], check=True)
            subprocess.run(
                [self.program, "-C", str(repository), "fast-import", "--quiet", "--done"],
                check=True,
                input=inputs.fast_import_stream(),
            )
        self.command = [self.program, "-C", str(repository), "log", "-p", "--no-color", "main"]
        self.environment = {**GIT_ENVIRONMENT, "HOME": str(inputs_folder)}


class GhostscriptRow(ProgramRow):
    """Ghostscript renders generated pages of text and curves; the result is the pictures, bit for bit."""

    def prepare(self, inputs_folder: Path) -> None:
        source = inputs_folder / "pages.ps"
        inputs.write_postscript(source)
        self.command = [
            self.program,
            "-q",
            "-dNOPAUSE",
            "-dBATCH",
            "-dSAFER",
            "-sDEVICE=ppmraw",
            "-r110",
            "-dGraphicsAlphaBits=4",
            "-dTextAlphaBits=4",
            "-sOutputFile=-",
            str(source),
        ]


def real_rows() -> list[Row]:
    return [
        CompilerRow("g++", "g++ -fsyntax-only on a heavy translation unit", ("g++",), "g++"),
        CompilerRow(
            "clang++",
            "clang++ -fsyntax-only on the same",
            ("clang++", "/usr/bin/clang++-[0-9]*", "/usr/lib/llvm-*/bin/clang++"),
            "clang",
        ),
        ScriptRow(
            "python",
            "python3 with PYTHONMALLOC=malloc: objects, dictionaries, JSON",
            (DEBIAN_PYTHON,),
            "python3",
            "objects.py",
            inputs.PYTHON_PROGRAM,
            ("-I", "-S", "{}"),
            {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"},
        ),
        ScriptRow(
            "sqlite",
            "sqlite3 in memory: inserts, joins, updates",
            ("sqlite3",),
            "sqlite3",
            "script.sql",
            inputs.SQL_SCRIPT,
            ("-batch", "-init", "/dev/null", ":memory:", ".read {}"),
        ),
        ScriptRow(
            "lua",
            "lua: tables, closures, strings",
            ("lua5.4", "lua5.3", "lua"),
            "lua5.4",
            "tables.lua",
            inputs.LUA_PROGRAM,
        ),
        GitRow("git-log-p", "git log -p over a generated history", ("git",), "git"),
        GhostscriptRow("gs", "ghostscript renders text and curves", ("gs",), "ghostscript"),
        RedisRow(),
    ]
