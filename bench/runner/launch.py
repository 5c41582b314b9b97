# SPDX-License-Identifier: MIT
"""One timed run: starts bench_launch, checks that the library was in use, and returns what the run cost."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from peers.contender import Contender

# Settings of allocators that the caller's shell may hold; contenders run at their release defaults.
ALLOCATOR_VARIABLES = (
    "MALLOC_",
    "MIMALLOC_",
    "TCMALLOC_",
    "SNMALLOC_",
    "TBB_MALLOC_",
    "TARN_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "_RJEM_",
)


class RunFailed(Exception):
    """A run gave no usable figure; the message says why."""


@dataclass(frozen=True)
class Measurement:
    seconds: float  # the program's own, else wall
    wall: float
    user: float
    sys: float
    rss: int  # peak, bytes
    minor: int
    major: int
    result: str  # checksum or digest of the output; must be the same under every contender
    verified: bool  # the library was seen in the process's memory map

    @property
    def cpu(self) -> float:
        return self.user + self.sys


def clean_environment(contender: Contender, extra: dict[str, str] | None = None) -> dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ALLOCATOR_VARIABLES)}
    environment["LC_ALL"] = "C"
    environment.update(extra or {})
    environment.update(contender.environment)
    return environment


class Launcher:
    """Runs commands through bench_launch. `scratch` holds the output of the latest run."""

    def __init__(self, program: Path, scratch: Path, touch_mib: int, limit_seconds: int):
        self.program = program
        self.scratch = scratch
        self.touch_mib = touch_mib
        self.limit_seconds = limit_seconds

    def wrap(self, command: list[str], library: Path | None, touch: bool = True) -> list[str]:
        words = [
            str(self.program),
            "--output",
            str(self.output),
            "--errors",
            str(self.errors),
            "--touch",
            str(self.touch_mib if touch else 0),
            "--limit",
            str(self.limit_seconds),
        ]
        if library:
            words += ["--preload", str(library)]
        return [*words, "--", *command]

    @property
    def output(self) -> Path:
        return self.scratch / "output"

    @property
    def errors(self) -> Path:
        return self.scratch / "errors"

    def run(
        self,
        command: list[str],
        contender: Contender,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
    ) -> dict:
        """The report of bench_launch, checked; the command's output lies in self.output."""
        done = subprocess.run(
            self.wrap(command, contender.library),
            cwd=folder,
            check=False,
            text=True,
            capture_output=True,
            env=clean_environment(contender, environment),
        )
        if done.returncode != 0:
            raise RunFailed(done.stderr.strip() or f"bench_launch ended with status {done.returncode}")
        return self.check(json.loads(done.stdout), contender)

    def check(self, report: dict, contender: Contender) -> dict:
        if report["signal"] == 9 and report["wall"] >= self.limit_seconds - 0.5:
            raise RunFailed(f"stopped after {self.limit_seconds} s (--limit)")
        if report["signal"] or report["status"]:
            how = f"signal {report['signal']}" if report["signal"] else f"status {report['status']}"
            raise RunFailed(f"ended with {how}{self.last_error()}")
        if report["preload"] == "missing":
            raise RunFailed(
                f"{contender.library} was not in use: the program is static, setuid, or refused it"
                f"{self.last_error()}"
            )
        return report

    def last_error(self) -> str:
        lines = self.errors.read_text(errors="replace").strip().splitlines() if self.errors.exists() else []
        return f": {lines[-1]}" if lines else ""


def to_measurement(report: dict, seconds: float, result: str) -> Measurement:
    return Measurement(
        seconds=seconds,
        wall=report["wall"],
        user=report["user"],
        sys=report["sys"],
        rss=report["rss"],
        minor=report["minor"],
        major=report["major"],
        result=result,
        verified=report["preload"] == "used",
    )


def digest(path: Path) -> str:
    hasher = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(1 << 20):
            hasher.update(chunk)
    return hasher.hexdigest()[:16]


def preload_works(program: str, contender: Contender) -> bool:
    """Whether the dynamic loader would load the library into `program` (False: static or setuid)."""
    if contender.library is None:
        return True
    environment = clean_environment(contender, {"LD_TRACE_LOADED_OBJECTS": "1"})
    environment["LD_PRELOAD"] = str(contender.library)
    try:
        listed = subprocess.run(
            [program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return str(contender.library) in listed.stdout
