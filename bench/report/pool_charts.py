# SPDX-License-Identifier: MIT
"""The chart of the pool benchmarks: ns per take and give over the number of threads, in the manner of charts.py."""

from pathlib import Path

from report.charts import FAINT, INK, PEER_COLOURS, PEER_MARKERS, SUBJECT_COLOUR, add_dark_mode, pyplot
from report.pool_results import PoolResults
from report.pool_goals import POOL


def draw_threads(results: PoolResults, folder: Path) -> Path:
    """Writes pools-threads.svg. tarn is the thick line; references are thin and grey."""
    counts = results.cells("threads")
    if not counts:
        raise ValueError("--svg draws the scene threads, which was not measured")
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(9, 5.4))
    peers = 0
    for name, kind in results.kinds.items():
        points = [(int(count), results.median("threads", count, name, "ns")) for count in counts]
        points = [(count, value) for count, value in points if value is not None]
        if not points or (kind == "tarn" and name != POOL):
            continue
        style = {"color": FAINT, "linewidth": 1, "linestyle": "--"}
        if name == POOL:
            style = {"color": SUBJECT_COLOUR, "linewidth": 2.5, "marker": "o", "zorder": 5}
        elif kind != "reference":
            style = {
                "color": PEER_COLOURS[peers % len(PEER_COLOURS)],
                "marker": PEER_MARKERS[peers % len(PEER_MARKERS)],
                "linewidth": 1.2,
            }
            peers += 1
        axes.plot(*zip(*points), label=name, markersize=5, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([int(count) for count in counts], labels=counts)
    axes.set_xlabel("threads")
    axes.set_ylabel("ns per take + give (log)")
    axes.set_title("100,000 objects of 64 bytes per thread, returned shuffled", color=INK)
    axes.grid(True, linewidth=0.5)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pools-threads.svg"
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    plot.close(figure)
    path.write_text(add_dark_mode(path.read_text()))
    return path
