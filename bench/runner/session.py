# SPDX-License-Identifier: MIT
"""A session: prepares the rows, runs the rounds in random order, and keeps every run and every failure."""

import dataclasses
import random
import subprocess
from pathlib import Path

from peers.contender import Contender
from report.results import Results
from runner.launch import Launcher, RunFailed, preload_works
from runner.progress import Progress
from runner.rows import Row


def usable_rows(rows: list[Row], results: Results, inputs: Path) -> list[Row]:
    """Prepares each row; those whose program is missing become a notice."""
    usable = []
    for row in rows:
        reason = row.missing()
        if reason is None:
            try:
                row.prepare(inputs)
            except (OSError, subprocess.CalledProcessError) as error:
                reason = f"its input could not be made: {error}"
        if reason is None:
            usable.append(row)
        else:
            results.notices.append(f"row {row.name} left out: {reason}")
    return usable


def check_preloads(rows: list[Row], contenders: list[Contender], results: Results) -> list[Row]:
    """Leaves out rows whose programs do not load a contender's library at all."""
    verdicts: dict[tuple[str, str], bool] = {}
    passed = []
    for row in rows:
        refused = []
        for program in row.programs():
            for contender in contenders:
                key = (program, str(contender.library))
                if key not in verdicts:
                    verdicts[key] = preload_works(program, contender)
                if not verdicts[key]:
                    refused.append(f"{program} does not load {contender.library} ({contender.name})")
        if refused:
            results.notices.append(f"row {row.name} left out: {refused[0]}")
        else:
            passed.append(row)
    return passed


class Session:
    """Runs rows under contenders. `record` is results.runs or results.scaling."""

    def __init__(self, launcher: Launcher, contenders: list[Contender], results: Results, seed: int):
        self.launcher = launcher
        self.contenders = contenders
        self.results = results
        self.random = random.Random(seed)
        self.expected: dict[str, str] = {}  # the row's result under the system's malloc
        self.broken: set[tuple[str, str]] = set()

    def measure(self, rows: list[Row], rounds: int, record: list[dict], progress: Progress) -> None:
        """Every round each contender once per row, contenders in random order."""
        for round_number in range(rounds):
            for row in rows:
                if round_number == 0:
                    self.warm_up(row, progress)
                for contender in self.random.sample(self.contenders, len(self.contenders)):
                    if (row.name, contender.name) in self.broken:
                        progress.step("")
                        continue
                    where = f"round {round_number + 1}/{rounds}  {row.name}  {contender.name}"
                    progress.show(where)
                    self.one_run(row, contender, round_number, record, progress, where)

    def warm_up(self, row: Row, progress: Progress) -> None:
        """One run that does not count: files come into the page cache. Under the system's malloc where that
        takes part, so that its result is the one that all others must give."""
        progress.show(f"warm-up  {row.name}")
        reference = next((each for each in self.contenders if each.library is None), self.contenders[0])
        try:
            self.expected[row.name] = row.run(self.launcher, reference).result
        except (RunFailed, OSError):
            pass  # the first counted run says what is wrong

    def one_run(
        self,
        row: Row,
        contender: Contender,
        round_number: int,
        record: list[dict],
        progress: Progress,
        where: str,
    ) -> None:
        try:
            run = row.run(self.launcher, contender)
            expected = self.expected.setdefault(row.name, run.result)
            if run.result != expected:
                raise RunFailed(f"gave another result ({run.result}) than the runs before ({expected})")
        except (RunFailed, OSError, ValueError) as error:
            self.broken.add((row.name, contender.name))
            self.results.failures.append(
                {"row": row.name, "contender": contender.name, "round": round_number, "reason": str(error)}
            )
            progress.note(f"FAILED: {row.name} under {contender.name}: {error}")
            progress.step(where)
            return
        entry = {
            "row": row.name,
            "contender": contender.name,
            "round": round_number,
            "cpu": run.cpu,
            **dataclasses.asdict(run),
        }
        record.append(entry)
        progress.step(f"{where}  {run.seconds:.3f} s")
