# SPDX-License-Identifier: MIT
"""Puts the runner's packages on the path of its unit tests, and makes results for them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report.results import Results  # noqa: E402  (the path is set above)

FACTORS = (1.0, 0.9, 1.1)  # of the rounds: the median is the value itself


def run(scene: str, cell: str, name: str, round_number: int, **figures: float) -> dict:
    return {"scene": scene, "cell": cell, "contender": name, "round": round_number, "figures": figures}


def failure(scene: str, cell: str, name: str, round_number: int, reason: str) -> dict:
    return {"scene": scene, "cell": cell, "contender": name, "round": round_number, "reason": reason}


def row(scene: str, cell: str, name: str, round_number: int, seconds: float, rss: float) -> dict:
    return run(scene, cell, name, round_number, seconds=seconds, cpu=seconds, rss=rss, minor=1000)


def malloc_sample() -> Results:
    """tarn wins `a` in time and loses `b`; in memory it is second in `a` and leanest in `b`."""
    results = Results("malloc", kinds={"tarn": "tarn", "one": "peer", "two": "peer", "tarn again": "twin"})
    values = {
        ("workload", "a"): ((0.8, 110e6), (1.0, 100e6), (2.0, 200e6), (0.84, 110e6)),
        ("real", "b"): ((1.5, 50e6), (1.2, 60e6), (1.0, 100e6), (1.5, 50e6)),
    }
    for number, factor in enumerate(FACTORS):
        for place, cells in values.items():
            for name, (seconds, rss) in zip(results.kinds, cells):
                results.runs.append(row(*place, name, number, seconds * factor, rss))
    return results


def pools_sample() -> Results:
    """tarn wins among the peers with one thread and loses to mimalloc with two; the reference is ahead of all."""
    kinds = {
        "tarn::pool_of": "tarn",
        "tarn::object_pool": "tarn",
        "classic object pool": "peer",
        "new/delete, glibc": "malloc",
        "new/delete, mimalloc": "malloc",
        "bare thread-local array": "reference",
    }
    results = Results("pools", kinds=kinds)
    nanoseconds = {"1": (5.0, 6.0, 20.0, 50.0, 10.0, 4.0), "2": (9.0, 8.0, 20.0, 50.0, 4.0, 3.0)}
    for number, factor in enumerate(FACTORS):
        for cell, values in nanoseconds.items():
            for name, value in zip(kinds, values):
                share = 0.5 if name == "new/delete, glibc" else 1.0
                results.runs.append(run("threads", cell, name, number, ns=value * factor, share=share))
    return results


def recyclers_sample() -> Results:
    kinds = {"Go, fresh": "reference", "Go sync.Pool": "peer", "Netty Recycler": "peer", "tarn::recycler": "tarn"}
    results = Results("recyclers", kinds=kinds)
    for number, factor in enumerate(FACTORS):
        for name, value in zip(kinds, (20.0, 10.0, 12.0, 3.0)):
            results.runs.append(run("get_release", "", name, number, ns=value * factor))
        for name, value in zip(kinds, (9.0, 20.0, 50.0, 25.0)):
            results.runs.append(run("cross", "1 processor", name, number, ns=value * factor))
        for name, value in (("tarn::recycler", 60.0), ("C++, kept by hand", 59.0)):
            results.runs.append(run("buffer10k", "", name, number, ns=value * factor, allocations=0.0, bytes=0.0))
    results.kinds = {**kinds, "C++, kept by hand": "reference"}
    return results
