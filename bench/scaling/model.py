# SPDX-License-Identifier: MIT
"""Simulates P processors that share locks and cache lines.

Each processor works, takes a lock, holds it, and works again. What is simulated event by event is the locks: who waits for
whom, and from which processor the lock's lines come. All other costs are means. The assumptions are listed in
docs/explanation/scaling.md; each has its line here."""

import heapq
import random
from dataclasses import dataclass, field

from scaling.counters import Lock, Sample

HOMES = 16  # central::most_homes
LARGEST_SHARED = 256  # central::largest_shared: depots of larger objects are one for all threads
FEWEST_TRANSFERS = 1e-6  # per operation: below, the lines that a transfer moves are not known and taken from other locks
COUNTER_NS = 8.0  # a section that does nothing is counted as held for so long
MOST_LINES = 40  # that one holder can find in another processor's cache


@dataclass(frozen=True)
class Machine:
    """line_ns: a cache line from one processor to another of the same socket; apart_ns: the same of a line that waits for no
    other one; far: how many times longer from the other socket."""

    line_ns: float
    apart_ns: float
    far: float = 2.5
    sockets: int = 1

    def transfer(self, a: int, b: int, processors: int) -> float:
        return self.line_ns * (self.far if self.socket(a, processors) != self.socket(b, processors) else 1.0)

    def socket(self, processor: int, processors: int) -> int:
        return processor * self.sockets // max(processors, self.sockets)

    def mean_distance(self, processors: int) -> float:
        """Of a processor chosen at random among the others: 1 in the same socket."""
        if processors < 2 or self.sockets == 1:
            return 1.0
        elsewhere = processors - processors // self.sockets
        return 1 + (self.far - 1) * elsewhere / (processors - 1)


@dataclass(frozen=True)
class Shared:
    """A name of locks in the model."""

    rate: float  # acquisitions per operation
    held_ns: float  # by a processor that held it the last time
    lines: float  # that come with the lock from another processor, besides the lock's own
    homes: int = 1  # locks of this name
    stray: float = 0.0  # share of acquisitions of a lock of another home than the processor's


@dataclass
class Inputs:
    """What was measured of one workload and library. `counted` has a sample for each number of threads."""

    alone: float  # seconds of processor time per operation of one thread on one processor, not counting
    counted: dict[int, Sample] = field(default_factory=dict)
    lines: float = 0.0  # of the program itself, see Workload
    company: float = 1.0  # how many times longer an operation takes beside another process that shares nothing
    counter_ns: float = COUNTER_NS


def is_per_home(key: str, sample: Sample) -> bool:
    name, _, size = key.partition(" ")
    return name == "depot" and int(size) <= LARGEST_SHARED and sample.locks[key].locks > 1


def held_alone(lock: Lock, counter_ns: float) -> float | None:
    """Mean time of the acquisitions that are not transfers; None: all are."""
    kept = lock.figures["acquisitions"] - lock.figures["transfers"]
    if kept <= 0:
        return None
    return max(1.0, (lock.figures["held_ns"] - lock.figures["held_after_transfer_ns"]) / kept - counter_ns)


def lines_of(lock: Lock, held_ns: float, line_ns: float, counter_ns: float) -> float | None:
    """The cache lines that a transfer moves, from how much longer the lock is held after one. None: there were too few."""
    if lock.figures["transfers"] < FEWEST_TRANSFERS:
        return None
    after = lock.figures["held_after_transfer_ns"] / lock.figures["transfers"] - counter_ns
    return min(MOST_LINES, max(0.0, (after - held_ns) / line_ns))


def stray_share(lock: Lock, homes: int) -> float:
    """At a lock of two homes, used by the other home's thread with probability q, 2q(1-q) of the acquisitions are transfers.
    With more homes the blocks of one program spread over all of them: q grows as the share of the other homes."""
    share = min(0.5, lock.figures["transfers"] / lock.figures["acquisitions"])
    q = (1 - (1 - 2 * share) ** 0.5) / 2
    return min(1.0, 2 * q * (homes - 1) / homes)


def nearest(counted: dict[int, Sample], processors: int) -> Sample:
    """That of the most threads that are not more than the processors."""
    return counted[max(threads for threads in counted if threads <= processors)]


def shared_of(inputs: Inputs, processors: int, line_ns: float) -> dict[str, Shared]:
    """How often a lock is taken depends on the number of threads. How long it is held, and what a transfer adds, is the least of
    the means with different numbers of threads: a holder that is interrupted only adds to them."""
    sample, two = nearest(inputs.counted, processors), inputs.counted.get(2, inputs.counted[min(inputs.counted)])
    held, lines = {}, {}
    for key in sample.locks:
        known = [each.locks[key] for each in inputs.counted.values() if key in each.locks]
        times = [held_alone(lock, inputs.counter_ns) for lock in known]
        held[key] = min((time for time in times if time is not None), default=1.0)
        moved = [lines_of(lock, held[key], line_ns, inputs.counter_ns) for lock in known]
        if any(count is not None for count in moved):
            lines[key] = min(count for count in moved if count is not None)
    usual = sum(lines.values()) / len(lines) if lines else 1.0
    shared = {}
    for key, lock in sample.locks.items():
        homes = min(HOMES, processors) if is_per_home(key, sample) else 1
        stray = stray_share(two.locks[key], homes) if homes > 1 and key in two.locks else 0.0
        shared[key] = Shared(lock.figures["acquisitions"], held[key], lines.get(key, usual), homes, stray)
    return shared


def work_ns(inputs: Inputs, line_ns: float) -> float:
    """Of one operation, without any lock held: the time of one thread alone, less what it holds locks for."""
    alone = shared_of(inputs, 1, line_ns)
    return max(1.0, inputs.alone * 1e9 - sum(each.rate * each.held_ns for each in alone.values()))


def work_with_others(inputs: Inputs, machine: Machine, processors: int) -> float:
    """The same beside other processors: with what they cost by their presence alone, and with the lines of blocks that others
    wrote last."""
    work = work_ns(inputs, machine.line_ns)
    if processors == 1:
        return work
    foreign = nearest(inputs.counted, processors).foreign
    lines = foreign + inputs.lines * (processors - 1) / processors
    return work * inputs.company + lines * machine.apart_ns * machine.mean_distance(processors)


class Places:
    """Who held each lock last, and when it is free."""

    def __init__(self):
        self.free_at: dict[tuple[str, int], float] = {}
        self.last: dict[tuple[str, int], int] = {}


def simulate(shared: dict[str, Shared], work: float, machine: Machine, processors: int, events: int = 0, seed: int = 1) -> float:
    """Nanoseconds per operation of one processor. `work`: of one operation outside of locks."""
    rate = sum(each.rate for each in shared.values())
    if rate == 0:
        return work
    rng = random.Random(seed)
    names = list(shared)
    weights = [shared[name].rate for name in names]
    places = Places()
    mean_work = work / rate  # between two acquisitions
    # Works of exponential length: acquisitions of different processors do not keep a rhythm.
    requests = [(rng.expovariate(1 / mean_work), p) for p in range(processors)]
    heapq.heapify(requests)
    events = events or max(20_000, 150 * processors)
    warm, begin, now = events // 4, 0.0, 0.0
    for count in range(events):
        if count == warm:
            begin = requests[0][0]
        now, processor = heapq.heappop(requests)
        name = rng.choices(names, weights)[0]
        lock = shared[name]
        home = processor % lock.homes
        if lock.homes > 1 and rng.random() < lock.stray:
            home = (home + rng.randrange(1, lock.homes)) % lock.homes
        place = (name, home)
        # First come, first served: requests are handled in the order of their times.
        start = max(now, places.free_at.get(place, 0.0))
        end = start + lock.held_ns
        last = places.last.get(place, processor)
        if last != processor:
            # The lock's own line comes before anything else can, then those that it guards.
            end += (1 + lock.lines) * machine.transfer(last, processor, processors)
        places.free_at[place], places.last[place] = end, processor
        heapq.heappush(requests, (end + rng.expovariate(1 / mean_work), processor))
    elapsed = max(now - begin, 1e-9)
    return elapsed * processors * rate / (events - warm)


def operation_ns(inputs: Inputs, machine: Machine, processors: int) -> float:
    """Nanoseconds per operation of one of the processors."""
    shared = shared_of(inputs, processors, machine.line_ns)
    return simulate(shared, work_with_others(inputs, machine, processors), machine, processors)


def throughput(inputs: Inputs, machine: Machine, processors: int) -> float:
    """Operations per nanosecond of all processors together."""
    return processors / operation_ns(inputs, machine, processors)


def demand(inputs: Inputs, machine: Machine, processors: int) -> list[tuple[float, str]]:
    """For each lock, how many of it `processors` processors would keep busy if none of them waited; the most first. Above 1
    the lock bounds the throughput."""
    shared = shared_of(inputs, processors, machine.line_ns)
    work = work_with_others(inputs, machine, processors)
    busy = []
    for key, lock in shared.items():
        sharers = processors / lock.homes
        moved = (sharers - 1) / sharers if sharers > 1 else 2 * lock.stray * (1 - lock.stray)
        service = lock.held_ns + moved * (1 + lock.lines) * machine.line_ns * machine.mean_distance(processors)
        busy.append((lock.rate * service * sharers / work, key))
    return sorted(busy, reverse=True)
