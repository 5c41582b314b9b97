# SPDX-License-Identifier: MIT
"""Runs a workload with tarn and reads how often its locks were taken, and for how long they were held, per operation.

The figures of a steady state are the difference of two runs of different length: what happens once, at the start and at the
end, is in both. Times are processor time, so they do not contain what other programs take."""

import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

FIGURES = ("acquisitions", "transfers", "waits", "waited_ns", "held_ns", "held_after_transfer_ns", "foreign_objects")


class ScalingError(Exception):
    """A request that cannot be carried out, with the reason."""


@dataclass(frozen=True)
class Workload:
    name: str
    operation: str  # what one operation is
    operations: Callable[[int, int], float]  # of a whole run, by threads and scale
    scales: tuple[int, int]  # of the two runs, per mille
    lines: float = 0.0  # cache lines that the program itself passes between threads, per operation
    program: str = ""


WORKLOADS = (
    Workload("own_blocks", "new and delete of 64 bytes, in random order; no block changes threads",
             lambda threads, scale: 60 * scale // 1000 * 100_000 * threads, (400, 800), 0.0, "scaling_own_blocks"),
    Workload("larson", "replace one of 5,000 blocks of 8 to 1,000 bytes", lambda threads, scale: 17_000 * scale, (300, 900)),
    # 13 sizes: one line up to 64 bytes, else the first and the last one are read before the block is freed.
    Workload("xmalloc", "malloc, and free by another thread", lambda threads, scale: 240 * scale * 121, (300, 900), 20 / 13),
    # 30 steps. Each makes a block, and one block in five goes through a table that all threads use: the line of its place there,
    # and the lines of the block that are read before it is freed (the first and, above 64 bytes, the last).
    Workload("mstress", "a millionth of the work", lambda threads, scale: 1_000 * scale, (300, 900), 30 / 5 * 2.9),
)


@dataclass
class Lock:
    """What was counted of the locks of one name and size: sums, and how many locks they are."""

    locks: int = 0
    figures: dict[str, float] = field(default_factory=dict)


@dataclass
class Sample:
    """One pair of runs: per operation."""

    seconds: float  # of processor time
    foreign: float  # share of the objects that another thread had written last, if the program counts it
    locks: dict[str, Lock]


class Quiet:
    """Waits until nothing else runs, and tells how much of the processors' time others used while a program ran."""

    def __init__(self, patience_s: float = 0.0, most: float = 0.05):
        self.patience_s, self.most = patience_s, most
        self.disturbed = 0  # runs that were accepted although others used more than `most`

    @staticmethod
    def busy_seconds(processors: str) -> float:
        wanted = {f"cpu{number}" for number in processors.split(",")}
        rows = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        # user nice system idle iowait irq softirq steal
        busy = sum(sum(map(int, row[1:4])) + sum(map(int, row[6:9])) for row in rows if row[0] in wanted)
        return busy / os.sysconf("SC_CLK_TCK")

    def wait(self, until: float) -> None:
        while time.monotonic() < until and int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) > 1:
            time.sleep(0.05)

    def run(self, processors: str, action: Callable):
        """Repeats the action until it was undisturbed; without that within `patience_s`, the least disturbed counts."""
        begin, best = time.monotonic(), None
        while True:
            self.wait(begin + self.patience_s)
            busy, own, start = self.busy_seconds(processors), children_seconds(), time.monotonic()
            result = action()
            used = children_seconds() - own
            elapsed = (time.monotonic() - start) * (1 + processors.count(","))
            others = max(0.0, self.busy_seconds(processors) - busy - used) / elapsed
            if best is None or others < best[0]:
                best = others, result
            if best[0] <= self.most:
                return best[1]
            if time.monotonic() - begin >= self.patience_s:
                self.disturbed += 1
                return best[1]


def key_of(lock: dict) -> str:
    return f"{lock['name']} {lock['object_size']}" if lock.get("object_size") else lock["name"]


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed_pair(workload: Workload, folder: Path, library: Path, processors: str) -> float:
    """Processor seconds per operation of two processes of one thread that run at once, each on a processor of its own: what
    sharing the machine costs programs that share no lock and no line."""
    program = folder / (workload.program or workload.name)
    environment = dict(os.environ, LD_PRELOAD=str(library), TARN_GUARDED="off")
    seconds = []
    for scale in workload.scales:
        before = children_seconds()
        commands = [["taskset", "-c", each, str(program), "1", str(scale)] for each in processors.split(",")]
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for command in commands]
        for process in running:
            process.communicate()
        seconds.append(children_seconds() - before)
    operations = [2 * workload.operations(1, scale) for scale in workload.scales]
    return (seconds[1] - seconds[0]) / (operations[1] - operations[0])


def run(program: Path, library: Path, threads: int, scale: int, processors: str, counting: bool) -> tuple[list[str], dict]:
    """The words that the program prints, and tarn's statistics at its exit."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        environment = dict(os.environ, LD_PRELOAD=str(library), TARN_STATS=file.name, TARN_GUARDED="off")
        environment["TARN_CONTENTION"] = "on" if counting else "off"
        # The model has as many processors as threads, so each thread has a cache of its own there.
        environment["TARN_CPU_CACHES"] = "off"
        command = ["taskset", "-c", processors, str(program), str(threads), str(scale)]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        if result.returncode != 0:
            raise ScalingError(f"{' '.join(command)} failed: {result.stderr.strip()}")
        reports = [json.loads(line) for line in Path(file.name).read_text().splitlines()]
    # A line for each process; the program may be started by a script.
    own = [report for report in reports if report.get("program") == str(program)]
    return result.stdout.split(), own[-1] if own else {}


def without_longest(lock: dict) -> dict:
    """Less the longest time that it was held: a holder that lost its processor would count for thousands of others."""
    less = dict(lock)
    longest, after = lock.get("longest_held_ns", 0), lock.get("held_after_transfer_ns", 0)
    less["held_ns"] = lock.get("held_ns", 0) - longest
    # It was after a transfer if the rest is shorter.
    if lock.get("held_ns", 0) - after < longest:
        less["held_after_transfer_ns"] = max(0, after - longest)
    return less


def difference(short: list[dict], long: list[dict], operations: float) -> dict[str, Lock]:
    """Per operation, of two lists `locks` of the statistics. Figures never fall below zero: counts of rare events vary."""
    before = {key_of(lock): lock for lock in short}
    steady = {}
    for lock in long:
        new, old = without_longest(lock), without_longest(before.get(key_of(lock), {}))
        figures = {name: max(0.0, (new.get(name, 0) - old.get(name, 0)) / operations) for name in FIGURES}
        if figures["acquisitions"] > 0:
            steady[key_of(lock)] = Lock(lock.get("locks", 1), figures)
    return steady


def sample(workload: Workload, folder: Path, library: Path, threads: int, processors: str, counting: bool) -> Sample:
    program = folder / (workload.program or workload.name)
    if not program.exists():
        raise ScalingError(f"{program} is missing; ./dev build bench builds it")
    seconds, runs = [], []
    for scale in workload.scales:
        before = children_seconds()
        runs.append(run(program, library, threads, scale, processors, counting))
        seconds.append(children_seconds() - before)
    short, (words, statistics_at_exit) = runs
    operations = [workload.operations(threads, scale) for scale in workload.scales]
    of_one = (seconds[1] - seconds[0]) / (operations[1] - operations[0])
    foreign = float(words[3]) / 1000 if len(words) > 3 else 0.0
    locks = difference(short[1].get("locks", []), statistics_at_exit.get("locks", []), operations[1] - operations[0])
    if counting and not statistics_at_exit.get("locks"):
        raise ScalingError(f"{library} does not count contention")
    return Sample(of_one, foreign, locks)


def median_sample(samples: list[Sample]) -> Sample:
    """The median of each figure by itself. A lock that less than half of the samples have is left out."""
    locks = {}
    for key in sorted({key for each in samples for key in each.locks}):
        found = [each.locks[key] for each in samples if key in each.locks]
        if 2 * len(found) < len(samples):
            continue
        figures = {name: statistics.median([lock.figures[name] for lock in found]) for name in FIGURES}
        locks[key] = Lock(max(lock.locks for lock in found), figures)
    return Sample(statistics.median([each.seconds for each in samples]),
                  statistics.median([each.foreign for each in samples]), locks)


def to_json(one: Sample) -> dict:
    return asdict(one)


def from_json(data: dict) -> Sample:
    locks = {key: Lock(lock["locks"], lock["figures"]) for key, lock in data["locks"].items()}
    return Sample(data["seconds"], data["foreign"], locks)
