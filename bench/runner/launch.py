# SPDX-License-Identifier: MIT
"""One timed run: starts bench_launch, checks that the library was in use, and returns what the run cost."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from peers.contender import Contender

# Settings of allocators that the caller's shell may hold; contenders run at their defaults.
FOREIGN_SETTINGS = tuple("MALLOC_ MIMALLOC_ TCMALLOC_ SNMALLOC_ TBB_MALLOC_ TARN_ GLIBC_TUNABLES LD_PRELOAD _RJEM_".split())


class RunFailed(Exception):
    """A run gave no usable figure; the message says why."""


def clean_environment(contender: Contender, extra: dict[str, str] | None = None) -> dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN_SETTINGS)}
    return {**environment, "LC_ALL": "C", **(extra or {}), **dict(contender.environment)}


def bind(processors: int | None) -> Callable[[], None] | None:
    """What a child does before it becomes the program: keeps so many of the processors that this process may use."""
    if processors is None:
        return None
    chosen = set(sorted(os.sched_getaffinity(0))[-processors:])
    return lambda: os.sched_setaffinity(0, chosen)


class Launcher:
    """Runs commands through bench_launch. `scratch` holds the output of the latest run."""

    def __init__(self, program: Path, scratch: Path, touch_mib: int, limit_seconds: int):
        self.program = program
        self.touch_mib = touch_mib
        self.limit_seconds = limit_seconds
        self.output, self.errors = scratch / "output", scratch / "errors"

    def wrap(self, command: Sequence[str], library: Path | None, touch: bool = True) -> list[str]:
        preload = str(library) if library else ""
        numbers = [str(self.touch_mib if touch else 0), str(self.limit_seconds)]
        return [str(self.program), *numbers, preload, str(self.output), str(self.errors), *command]

    def run(
        self,
        command: Sequence[str],
        contender: Contender,
        environment: dict[str, str] | None = None,
        processors: int | None = None,
        touch: bool = True,
    ) -> dict:
        """The report of bench_launch, checked; the command's output lies in self.output."""
        done = subprocess.run(
            self.wrap(command, contender.library, touch),
            check=False,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=clean_environment(contender, environment),
            preexec_fn=bind(processors),  # noqa: PLW1509  (this process has one thread)
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
            reason = "the program is static, setuid, or refused it"
            raise RunFailed(f"{contender.library} was not in use: {reason}{self.last_error()}")
        return report

    def last_error(self) -> str:
        lines = self.errors.read_text(errors="replace").strip().splitlines() if self.errors.exists() else []
        return f": {lines[-1]}" if lines else ""


# How a run's figures are read.


def cost(report: dict, seconds: float, result: str) -> dict[str, float | str]:
    """`result` is a checksum or digest of the output."""
    figures = {name: report[name] for name in ("wall", "user", "sys", "rss", "minor", "major")}
    return {"seconds": seconds, "cpu": report["user"] + report["sys"], **figures, "result": result}


def read_wall_time(report: dict, launcher: Launcher) -> dict[str, float | str]:
    return cost(report, report["wall"], hashlib.sha256(launcher.output.read_bytes()).hexdigest()[:16])


def read_own_time(report: dict, launcher: Launcher) -> dict[str, float | str]:
    words = launcher.output.read_text().split()
    if len(words) != 2:
        raise RunFailed(f'printed "{" ".join(words)[:60]}" instead of its seconds and a checksum')
    return cost(report, float(words[0]), words[1])


def read_json(report: dict, launcher: Launcher) -> dict[str, float | str]:
    figures = json.loads(launcher.output.read_text())
    if not isinstance(figures, dict) or not figures:
        raise RunFailed(f"no figure: {figures}")
    return figures
