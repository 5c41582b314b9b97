# SPDX-License-Identifier: MIT
"""The micro benchmarks: many short processes of bench_micro and bench_cycles, contenders in random order."""

import json
import random
from pathlib import Path

from peers.contender import Contender
from report.results import Results
from runner.launch import Launcher, RunFailed
from runner.progress import Progress


class MicroSession:
    """Collects results.micro: one entry per test, contender and process."""

    def __init__(self, launcher: Launcher, programs: Path, results: Results, seed: int, quick: bool):
        self.launcher = launcher
        self.results = results
        self.random = random.Random(seed)
        minimum = "0.005" if quick else "0.04"
        self.cycles = [str(programs / "bench_cycles"), "200" if quick else "2000"]
        self.micro = [
            str(programs / "bench_micro"),
            "--benchmark_format=json",
            f"--benchmark_min_time={minimum}",
        ]

    def commands(self) -> list[list[str]]:
        """Those that are built; a missing one becomes a notice."""
        present = []
        for command, advice in (
            (self.cycles, "cmake --build --preset bench"),
            (self.micro, "Debian: apt-get install libbenchmark-dev, then build again"),
        ):
            if Path(command[0]).exists():
                present.append(command)
            else:
                self.results.notices.append(f"{Path(command[0]).name} is not built ({advice})")
        return present

    def measure(self, contenders: list[Contender], rounds: int, progress: Progress) -> None:
        commands = self.commands()
        broken: set[tuple[str, str]] = set()
        for round_number in range(rounds):
            order = [(contender, command) for contender in contenders for command in commands]
            self.random.shuffle(order)
            for contender, command in order:
                name = Path(command[0]).name
                progress.show(f"micro {round_number + 1}/{rounds}  {name}  {contender.name}")
                if (contender.name, name) not in broken and not self.one_process(
                    contender, command, round_number
                ):
                    broken.add((contender.name, name))
                progress.step(f"micro {round_number + 1}/{rounds}  {name}  {contender.name}")

    def one_process(self, contender: Contender, command: list[str], round_number: int) -> bool:
        try:
            self.launcher.run(command, contender)
            output = json.loads(self.launcher.output.read_text())
        except (RunFailed, OSError, ValueError) as error:
            self.results.failures.append(
                {
                    "row": Path(command[0]).name,
                    "contender": contender.name,
                    "round": round_number,
                    "reason": str(error),
                }
            )
            return False
        entries = cycle_entries(output) if command is self.cycles else micro_entries(output)
        self.results.micro += [{**entry, "contender": contender.name} for entry in entries]
        return True


def cycle_entries(output: dict) -> list[dict]:
    return [
        {"test": test, "unit": "ticks per pair", "value": output[test]} for test in ("pair64", "batch1000")
    ]


def micro_entries(output: dict) -> list[dict]:
    """Google Benchmark counts items; the time of one item is what compares."""
    return [
        {
            "test": each["name"].removesuffix("/real_time"),
            "unit": "ns",
            "value": 1e9 / each["items_per_second"],
        }
        for each in output["benchmarks"]
        if each.get("items_per_second")
    ]
