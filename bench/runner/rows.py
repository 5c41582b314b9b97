# SPDX-License-Identifier: MIT
"""Rows of the table: what runs, and how its result is read. The C++ workloads are listed here, the real
programs in real_programs.py and redis.py."""

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path

from peers.contender import Contender
from runner.launch import Launcher, Measurement, RunFailed, digest, to_measurement


class Row:
    """One row. missing() is asked before prepare(); run() is called once per contender and round."""

    name: str
    group: str  # "workload" or "real"
    note: str  # one line for --list

    def missing(self) -> str | None:
        """What has to be installed for this row, or None."""
        return None

    def programs(self) -> list[str]:
        """Executables whose allocator counts: the preload is checked on each before the first round."""
        return []

    def prepare(self, inputs: Path) -> None:
        """Makes the row's input files in `inputs`."""

    def run(self, launcher: Launcher, contender: Contender) -> Measurement:
        raise NotImplementedError


@dataclass
class CommandRow(Row):
    """A command that runs to its end; its time is its wall time and its result its output."""

    name: str
    note: str
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    group: str = "real"

    def programs(self) -> list[str]:
        return self.command[:1]

    def run(self, launcher: Launcher, contender: Contender) -> Measurement:
        report = launcher.run(self.command, contender, self.environment, self.folder)
        return to_measurement(report, report["wall"], digest(launcher.output))


@dataclass
class WorkloadRow(Row):
    """One of the C++ workloads, which prints its own seconds and a checksum."""

    name: str
    note: str
    program: Path
    threads: int
    scale: int = 1000
    group: str = "workload"

    def missing(self) -> str | None:
        return (
            None if self.program.exists() else f"{self.program} is not built (cmake --build --preset bench)"
        )

    def programs(self) -> list[str]:
        return [str(self.program)]

    def run(self, launcher: Launcher, contender: Contender) -> Measurement:
        report = launcher.run([str(self.program), str(self.threads), str(self.scale)], contender)
        words = launcher.output.read_text().split()
        if len(words) != 2:
            raise RunFailed(f'printed "{" ".join(words)[:60]}" instead of its seconds and a checksum')
        return to_measurement(report, float(words[0]), words[1])


# Row, program, threads, what it models.
WORKLOADS = (
    ("larson-4", "larson", 4, "server: threads end and hand their objects on"),
    ("xmalloc-2", "xmalloc", 2, "batches allocated by one thread, freed by another"),
    ("xmalloc-8", "xmalloc", 8, "the same with more threads than processors"),
    ("slots-2", "slots", 2, "exchange through 16,384 shared slots"),
    ("mstress-2", "mstress", 2, "rounds of growth and release with hand-over"),
    ("mstress-8", "mstress", 8, "the same with more threads than processors"),
    ("rbtree", "rbtree", 1, "balanced tree of small nodes, random replacement"),
    ("alloc-test-1", "alloc_test", 1, "random replacement in a large array of mixed sizes"),
    ("alloc-test-4", "alloc_test", 4, "the same on four threads"),
    ("glibc-thread-8", "glibc_thread", 8, "small working sets of random sizes per thread"),
    ("thread-churn-4", "thread_churn", 4, "threads that start, allocate a little and end"),
    ("size-drift", "size_drift", 1, "sizes of the live set move: fragmentation"),
    ("large-set", "large_set", 1, "twenty live blocks of 5-25 MiB, replaced at random"),
    ("large-buffers", "large_buffers", 1, "allocate, fill and free 8-64 MiB again and again"),
    ("rptest-8", "rptest", 8, "sizes up to 16 KB, a share freed by the neighbour"),
    ("strings", "strings", 1, "text processing: strings, vectors, hash maps"),
    ("reinsert", "reinsert", 1, "containers filled, erased in random order, filled again"),
    ("ring-2", "ring", 2, "one producer, one consumer, 64-byte messages"),
)

# Those that --threads runs at every number of threads.
SCALING = (
    "larson",
    "xmalloc",
    "slots",
    "mstress",
    "alloc_test",
    "glibc_thread",
    "thread_churn",
    "rptest",
    "ring",
)


def workload_rows(programs: Path, scale: int) -> list[Row]:
    return [
        WorkloadRow(name, note, programs / program, threads, scale)
        for name, program, threads, note in WORKLOADS
    ]


def scaling_rows(programs: Path, scale: int, thread_counts: list[int]) -> list[Row]:
    return [
        WorkloadRow(f"{program}@{threads}", "", programs / program, threads, scale)
        for program in SCALING
        for threads in thread_counts
    ]


def thread_counts(processors: int) -> list[int]:
    """1, 2, 4, … up to the machine's processors, which are always the last."""
    counts = []
    count = 1
    while count < processors:
        counts.append(count)
        count *= 2
    return [*counts, processors]


def select_rows(rows: list[Row], patterns: str | None) -> list[Row]:
    """Rows whose name or group matches one of the comma-separated shell patterns."""
    if not patterns:
        return rows
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    return [
        row
        for row in rows
        if any(fnmatch.fnmatch(row.name, pattern) or row.group == pattern for pattern in wanted)
    ]
