# SPDX-License-Identifier: MIT
"""Puts the runner's packages on the path of its unit tests, and makes results for them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report.results import Results  # noqa: E402  (the path is set above)


def contender(name: str, twin_of: str | None = None) -> dict:
    return {
        "name": name,
        "library": "",
        "version": "1",
        "twin_of": twin_of,
        "peer": name != "tarn" and twin_of is None,
        "settings": {},
    }


def run(row: str, name: str, round_number: int, seconds: float, rss: float) -> dict:
    return {
        "row": row,
        "contender": name,
        "round": round_number,
        "seconds": seconds,
        "cpu": seconds,
        "rss": rss,
        "minor": 1000,
        "wall": seconds,
        "user": seconds,
        "sys": 0.0,
        "major": 0,
        "result": "x",
        "verified": True,
    }


def sample() -> Results:
    """tarn wins `a` in time and loses `b`; in memory it is second in `a` and leanest in `b`."""
    results = Results(
        contenders=[contender("tarn"), contender("one"), contender("two"), contender("tarn again", "tarn")],
        rows=[{"name": "a", "group": "workload", "note": ""}, {"name": "b", "group": "real", "note": ""}],
    )
    values = {
        "a": {"tarn": (0.8, 110e6), "one": (1.0, 100e6), "two": (2.0, 200e6), "tarn again": (0.84, 110e6)},
        "b": {"tarn": (1.5, 50e6), "one": (1.2, 60e6), "two": (1.0, 100e6), "tarn again": (1.5, 50e6)},
    }
    for round_number in range(3):
        factor = (1.0, 0.9, 1.1)[round_number]  # the median is the value itself
        for row, cells in values.items():
            for name, (seconds, rss) in cells.items():
                results.runs.append(run(row, name, round_number, seconds * factor, rss))
    return results
