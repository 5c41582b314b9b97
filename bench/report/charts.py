# SPDX-License-Identifier: MIT
"""SVG charts: mean time against mean memory, every row's ratios, and pools over threads. Each file carries its own light and
dark colours and its own background, so it is readable on any page. Needs matplotlib (Debian: python3-matplotlib)."""

import math
import re
from pathlib import Path

from peers.contender import SUBJECT
from report.results import Results
from report.tables import mean, ratios

ROWS = ("workload", "real")

# As drawn (light), and what each becomes where the reader's system is dark.
PAPER, INK, FAINT = "#fdfdfc", "#24292e", "#c9ccd1"
DARK = {PAPER: "#16191d", INK: "#e3e6ea", FAINT: "#3d434b"}
SUBJECT_COLOUR = "#d1480f"
MARKERS = "s^DvPX<>ph*d"


class ChartsUnavailable(Exception):
    """matplotlib is missing; the message says how to get it."""


def pyplot():
    try:
        import matplotlib
    except ImportError as error:
        advice = "(Debian: apt-get install python3-matplotlib, and run this with /usr/bin/python3)"
        raise ChartsUnavailable(f"--svg needs matplotlib {advice}") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as module

    faces = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    words = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    lines = ("axes.edgecolor", "grid.color", "legend.edgecolor")
    module.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tarn", "font.family": "sans-serif", "font.size": 10})
    for names, colour in ((faces, PAPER), (words, INK), (lines, FAINT)):
        module.rcParams.update(dict.fromkeys(names, colour))
    return module


def styles(names: list[str], subject: str) -> dict[str, tuple[str, str]]:
    """Colour and marker of each."""
    peers = [name for name in names if name != subject]
    found = {name: (f"C{place % 10}", MARKERS[place % len(MARKERS)]) for place, name in enumerate(peers)}
    return {subject: (SUBJECT_COLOUR, "o"), **found}


def add_dark_mode(svg: str) -> str:
    """Rules that swap the neutral colours where the reader prefers a dark page."""
    rules = "".join(
        f'[style*="fill: {light}"]{{fill:{dark} !important}}'
        f'[style*="stroke: {light}"]{{stroke:{dark} !important}}'
        for light, dark in DARK.items()
    )
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    return re.sub(r"(<svg[^>]*>)", lambda match: match.group(1) + style, svg, count=1)


def in_one_line(svg: str) -> str:
    """A generated file: one line, without what only editors need, without long lists of fonts and digits that nobody sees."""
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<\?xml.*?\?>|<!DOCTYPE[^>]*>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*sans-serif", "sans-serif", re.sub(r"(\.\d\d)\d+", r"\1", svg))
    return re.sub(r">\s+<", "><", re.sub(r"\s*\n\s*", " ", svg)).strip() + "\n"


def save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    path.write_text(in_one_line(add_dark_mode(path.read_text())))
    pyplot().close(figure)


def finish(figure, axes, path: Path, *hidden: str) -> None:
    axes.grid(True, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in hidden:
        axes.spines[side].set_visible(False)
    save(figure, path)


def means_chart(results: Results, path: Path) -> None:
    """One point per allocator: left is faster, low is leaner."""
    plot = pyplot()
    times = ratios(results, ROWS, "seconds", results.names("peer"))
    memory = ratios(results, ROWS, "rss", results.originals())
    figure, axes = plot.subplots(figsize=(7, 4.6))
    for name, (colour, marker) in styles(results.originals(), SUBJECT).items():
        x = mean(times, name)
        y = mean(memory, name)
        if x is None or y is None:
            continue
        size, weight = (90, "bold") if name == SUBJECT else (55, "normal")
        axes.scatter([x], [y], s=size, color=colour, marker=marker, zorder=3)
        axes.annotate(name, (x, y), xytext=(8, 5), textcoords="offset points", weight=weight)
    axes.margins(x=0.16, y=0.14)
    axes.set_xlabel("time over the best peer of each row, geometric mean (left is faster)")
    axes.set_ylabel("peak RSS over the leanest of each row,\ngeometric mean (low is leaner)")
    finish(figure, axes, path, "top", "right")


def rows_chart(results: Results, value: str, reference: list[str], label: str, path: Path) -> None:
    """Every row a line, every allocator a mark on it; a mark beyond the edge stays on it."""
    plot = pyplot()
    grid = ratios(results, ROWS, value, reference)
    rows = list(grid)
    edge = 4.0
    lowest = min((ratio for cells in grid.values() for ratio in cells.values()), default=1.0)
    figure, axes = plot.subplots(figsize=(8, 1.4 + 0.28 * len(rows)))
    for name, (colour, marker) in styles(results.originals(), SUBJECT).items():
        xs = [min(grid[row][name], edge) for row in rows if name in grid[row]]
        ys = [place for place, row in enumerate(rows) if name in grid[row]]
        size, order, alpha = (60, 4, 1.0) if name == SUBJECT else (26, 3, 0.85)
        axes.scatter(xs, ys, s=size, color=colour, marker=marker, label=name, zorder=order, clip_on=False, alpha=alpha)
    axes.axvline(1.0, color=INK, linewidth=1)
    axes.set_xscale("log")
    ticks = [tick for tick in (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4) if tick >= min(lowest, 1) * 0.93]
    axes.set_xlim(min(lowest, 1.0) * 0.96, edge * 1.02)
    axes.set_xticks(ticks, [f"{tick:g}" + ("+" if tick == edge else "") for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [row for _, row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(label)
    columns = math.ceil((len(results.originals()) + 1) / 2)
    axes.legend(ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False)
    finish(figure, axes, path, "top", "right", "left")


def draw_malloc(results: Results, folder: Path) -> list[Path]:
    """Writes means.svg, time.svg and rss.svg."""
    peers = results.names("peer")
    if not results.cells(*ROWS) or not peers:
        raise ChartsUnavailable("there are no runs of peers to draw")
    paths = [folder / name for name in ("means.svg", "time.svg", "rss.svg")]
    means_chart(results, paths[0])
    rows_chart(results, "seconds", peers, "time over the best peer of the row (left is faster)", paths[1])
    rows_chart(results, "rss", results.originals(), "peak RSS over the leanest of the row (left is leaner)", paths[2])
    return paths


def draw_threads(results: Results, folder: Path, subject: str = "tarn::pool_of") -> list[Path]:
    """Writes pools-threads.svg: ns per take and give over the number of threads. `subject` is the thick line."""
    counts = [cell for _, cell in results.cells("threads")]
    if not counts:
        raise ChartsUnavailable("--svg draws the scene threads, which was not measured")
    figure, axes = pyplot().subplots(figsize=(9, 5.4))
    columns = {count: results.column("threads", count, "ns") for count in counts}
    names = [name for name, kind in results.kinds.items() if name == subject or kind not in ("tarn", "reference")]
    for name, (colour, marker) in styles(names, subject).items():
        points = [(int(count), columns[count][name]) for count in counts if name in columns[count]]
        if points:
            width = 2.5 if name == subject else 1.2
            axes.plot(*zip(*points), label=name, markersize=5, color=colour, marker=marker, linewidth=width)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([int(count) for count in counts], labels=counts)
    axes.set_xlabel("threads")
    axes.set_ylabel("ns per take + give (log)")
    axes.set_title("100,000 objects of 64 bytes per thread, returned shuffled", color=INK)
    axes.grid(True, linewidth=0.5)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    path = folder / "pools-threads.svg"
    save(figure, path)
    return [path]
