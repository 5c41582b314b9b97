# SPDX-License-Identifier: MIT
"""What tarn's pools have to reach, each line with the figure that was measured; and every figure in which somebody
else was ahead."""

from dataclasses import dataclass

from report import statistics
from report.pool_results import PoolResults

POOL, LOCAL, ALLOCATOR = "tarn::pool_of", "tarn::local_pool", "tarn::pooled_allocator"
CLASSIC, GLIBC = "classic object pool", "new/delete, glibc"
ARRAY, LIMIT = "bare thread-local array", "no allocation at all"
OTHERS = ("peer", "malloc")


@dataclass(frozen=True)
class Goal:
    text: str
    figure: float | None  # None: not measured
    limit: float
    at_most: bool = True
    remark: str = ""

    @property
    def reached(self) -> bool | None:
        if self.figure is None:
            return None
        return self.figure <= self.limit if self.at_most else self.figure >= self.limit


def over(value: float | None, reference: float | None) -> float | None:
    return value / reference if value is not None and reference else None


def pair_goals(results: PoolResults) -> list[Goal]:
    wanted = (
        (LOCAL, "pair", "new, then delete", 2.5),
        (POOL, "pair", "new, then delete", 4.0),
        (LOCAL, "batch", "5,000 new, then 5,000 delete", 5.8),
        (POOL, "batch", "5,000 new, then 5,000 delete", 7.5),
    )
    return [
        Goal(f"{name}: {what}, {size} B, ticks", results.median("pairs", "", name, f"{figure}{size}"), limit)
        for name, figure, what, limit in wanted
        for size in (1, 64)
    ]


def container_goals(results: PoolResults) -> list[Goal]:
    goals = []
    for cell in results.cells("containers"):
        for phase in ("insert", "erase", "again"):
            best = statistics.best(column := results.column("containers", cell, phase, *OTHERS), column)
            ratio = over(results.median("containers", cell, ALLOCATOR, phase), best[1] if best else None)
            goals.append(
                Goal(
                    f"{ALLOCATOR}: {cell}, {phase}, over the best peer",
                    ratio,
                    1.03,
                    True,
                    best[0] if best else "",
                )
            )
    return goals


def thread_goals(results: PoolResults) -> list[Goal]:
    goals = []
    for cell in results.cells("threads"):
        own = results.median("threads", cell, POOL, "ns")
        mallocs = results.column("threads", cell, "ns", "malloc")
        best = statistics.best(mallocs, mallocs)
        text = f"{POOL}: {cell} threads, over "
        goals += [
            Goal(
                f"{text}the best malloc",
                over(own, best[1] if best else None),
                0.75,
                True,
                best[0] if best else "",
            ),
            *(
                Goal(f"{text}{name}", over(own, results.median("threads", cell, name, "ns")), limit)
                for name, limit in ((CLASSIC, 0.40), (GLIBC, 0.40), (ARRAY, 1.25))
            ),
        ]
    return goals


def memory_goals(results: PoolResults) -> list[Goal]:
    payload = results.median("memory", "", POOL, "payload")
    return [
        Goal(
            f"{POOL}: resident over payload, {when}",
            over(results.median("memory", "", POOL, figure), payload),
            limit,
        )
        for figure, when, limit in (
            ("live", "all objects live", 1.02),
            ("idle", "2 s after all were returned", 0.10),
        )
    ]


def exchange_goals(results: PoolResults) -> list[Goal]:
    rate = over(results.median("ring", "", POOL, "rate"), results.median("ring", "", LIMIT, "rate"))
    goals = [Goal(f"{POOL}: ring, rate over that without allocation", rate, 0.45, False)]
    for cell in results.cells("slots"):
        others = results.column("slots", cell, "rate", *OTHERS)
        best = max(others, key=lambda name: others[name], default=None)
        ratio = over(results.median("slots", cell, POOL, "rate"), others[best] if best else None)
        goals.append(
            Goal(f"{POOL}: slots, {cell} threads, rate over the best peer", ratio, 1.0, False, best or "")
        )
    return goals


def all_goals(results: PoolResults) -> list[Goal]:
    parts = {
        "pairs": pair_goals,
        "containers": container_goals,
        "threads": thread_goals,
        "memory": memory_goals,
        "ring": exchange_goals,
    }
    return [goal for scene, part in parts.items() if results.cells(scene) for goal in part(results)]


# Scene: its figures that compare, and whether more is better.
COMPARED = {
    "pairs": (("pair1", "pair64", "batch1", "batch64"), False),
    "containers": (("insert", "erase", "again", "sum", "grown"), False),
    "threads": (("ns",), False),
    "memory": (("live", "idle", "ended"), False),
    "ring": (("rate", "grown"), True),
    "slots": (("rate",), True),
}


BYTES = ("grown", "live", "idle", "ended")
NOTICED_BYTES = 0.5e6  # a difference below is the granularity of pages and spans


def shown(figure: str, value: float) -> str:
    return f"{value / 1e6:.1f} MB" if figure in BYTES else f"{value:.2f}"


def lost(results: PoolResults) -> list[str]:
    """In words: every figure in which a peer was ahead of the best of tarn's contenders, the worst first."""
    found = []
    for scene, (figures, more_is_better) in COMPARED.items():
        for cell in results.cells(scene):
            for figure in figures:
                more = more_is_better and figure not in BYTES
                own = results.column(scene, cell, figure, "tarn")
                others = results.column(scene, cell, figure, *OTHERS)
                if not own or not others:
                    continue
                choose = max if more else min
                mine, theirs = choose(own, key=own.get), choose(others, key=others.get)
                behind = over(others[theirs], own[mine]) if more else over(own[mine], others[theirs])
                if behind is None or behind <= 1.0:
                    continue
                if figure in BYTES and own[mine] - others[theirs] < NOTICED_BYTES:
                    continue
                place = " ".join(word for word in (scene, cell, figure) if word)
                values = f"{theirs} {shown(figure, others[theirs])}, {mine} {shown(figure, own[mine])}"
                found.append((behind, f"{place}: {values} ({behind:.2f})"))
    return [text for _, text in sorted(found, reverse=True)]
