# SPDX-License-Identifier: MIT
"""What tarn's pools have to reach, each line with the figure that was measured; and every figure in which somebody
else was ahead."""

from report import goals as scene_goals
from report import statistics
from report.goals import OTHERS, Goal, over
from report.pool_results import PoolResults

POOL, LOCAL, ALLOCATOR = "tarn::pool_of", "tarn::local_pool", "tarn::pooled_allocator"
CLASSIC, GLIBC = "classic object pool", "new/delete, glibc"
ARRAY, LIMIT = "bare thread-local array", "no allocation at all"


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


COMPARED: scene_goals.Compared = {
    "pairs": (("pair1", "pair64", "batch1", "batch64"), False),
    "containers": (("insert", "erase", "again", "sum", "grown"), False),
    "threads": (("ns",), False),
    "memory": (("live", "idle", "ended"), False),
    "ring": (("rate", "grown"), True),
    "slots": (("rate",), True),
}


def lost(results: PoolResults) -> list[str]:
    return scene_goals.lost(results, COMPARED)
