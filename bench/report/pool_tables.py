# SPDX-License-Identifier: MIT
"""The tables of the pool benchmarks: one per scene, what has to be reached, and what was lost."""

from collections.abc import Callable

from report import goals, pool_goals, statistics
from report.markdown import machine_line
from report.pool_results import PoolResults
from report.tables import Table, number

REFERENCE = "reference"
SHORTENED = "†"


def label(results: PoolResults, name: str) -> str:
    return f"{name} (reference)" if results.kinds[name] == REFERENCE else name


def cell_text(values: list[float], digits: int, factor: float = 1.0) -> str:
    if not values:
        return "-"
    scaled = [value * factor for value in values]
    text = number(statistics.median(scaled), digits)
    return text if len(scaled) == 1 else f"{text} [{min(scaled):.{digits}f}..{max(scaled):.{digits}f}]"


def sorted_names(results: PoolResults, scene: str, cell: str, figure: str, more: bool = False) -> list[str]:
    column = results.column(scene, cell, figure)
    return sorted(column, key=lambda name: -column[name] if more else column[name])


def pairs_table(results: PoolResults) -> Table:
    figures = ("pair1", "pair64", "batch1", "batch64")
    table = Table(
        "new + delete of a class, ticks per pair: median [lowest..highest]",
        ["contender", "pair, 1 B", "pair, 64 B", "5,000, 1 B", "5,000, 64 B"],
    )
    for name in sorted_names(results, "pairs", "", "batch1"):
        cells = [cell_text(results.values("pairs", "", name, figure), 1) for figure in figures]
        table.rows.append([label(results, name), *cells])
    return table


def container_table(results: PoolResults, cell: str) -> Table:
    container, count = cell.split()
    figures = ["insert", "erase", "again", "sum"]
    header = ["allocator", "insert", "erase", "insert again", "sum"]
    if int(count) < 100_000:
        figures.append("first")
        header.append("sum of the first container")
    table = Table(
        f"{container} of int, N = {int(count):,}, ticks per operation: median [lowest..highest]",
        [*header, "growth, MB"],
    )
    for name in sorted_names(results, "containers", cell, "sum"):
        cells = [cell_text(results.values("containers", cell, name, figure), 1) for figure in figures]
        grown = results.median("containers", cell, name, "grown")
        table.rows.append([label(results, name), *cells, number(grown / 1e6, 1)])
    return table


def threads_table(results: PoolResults) -> Table:
    counts = results.cells("threads")
    table = Table(
        "T threads x 100,000 objects of 64 B, 50 rounds, ns per take + give: median [lowest..highest]",
        ["contender", *(f"T = {count}" for count in counts)],
    )
    for name in sorted_names(results, "threads", counts[0], "ns"):
        cells = []
        for count in counts:
            share = results.median("threads", count, name, "share")
            mark = SHORTENED if share is not None and share < 1 else ""
            cells.append(cell_text(results.values("threads", count, name, "ns"), 1) + mark)
        table.rows.append([label(results, name), *cells])
    table.remarks.append(f"{SHORTENED} stopped after two seconds, so with fewer than 50 rounds")
    return table


def memory_table(results: PoolResults) -> Table:
    table = Table(
        "Resident MB above the test's own, 16 threads x 100,000 objects of 64 B (in % of the payload)",
        ["contender", "all live", "2 s after all were returned", "threads ended"],
    )
    for name in sorted_names(results, "memory", "", "live"):
        payload = results.median("memory", "", name, "payload")
        values = [results.median("memory", "", name, figure) for figure in ("live", "idle", "ended")]
        cells = [f"{value / 1e6:.1f} ({100 * value / payload:.1f})" for value in values]
        table.rows.append([label(results, name), *cells])
    return table


def ring_table(results: PoolResults) -> Table:
    limit = results.median("ring", "", pool_goals.LIMIT, "rate")
    table = Table(
        "One producer, one consumer, batches of 256 pointers: median [lowest..highest]",
        ["contender", "M objects/s", "of the ring without allocation", "objects, M", "growth, MB"],
    )
    for name in sorted_names(results, "ring", "", "rate", more=True):
        rate = results.median("ring", "", name, "rate")
        table.rows.append(
            [
                label(results, name),
                cell_text(results.values("ring", "", name, "rate"), 1),
                number(rate / limit if limit else None),
                number(results.median("ring", "", name, "millions"), 1),
                cell_text(results.values("ring", "", name, "grown"), 1, 1e-6),
            ]
        )
    table.remarks.append("below 10 million objects: stopped after two seconds")
    return table


def slots_table(results: PoolResults) -> Table:
    counts = results.cells("slots")
    table = Table(
        "Exchange through 16,384 shared slots, million operations/s: median [lowest..highest]",
        ["contender", *(f"T = {count}" for count in counts)],
    )
    for name in sorted_names(results, "slots", counts[0], "rate", more=True):
        cells = [cell_text(results.values("slots", count, name, "rate"), 1) for count in counts]
        table.rows.append([label(results, name), *cells])
    return table


def lost_table(results: PoolResults) -> Table:
    table = Table(
        "Where a peer was ahead of tarn", ["figure: who was ahead, the best of tarn's (by what factor)"]
    )
    table.rows = [[line] for line in pool_goals.lost(results)] or [["nowhere"]]
    table.remarks.append("differences of memory below 0.5 MB are left out")
    return table


def all_tables(results: PoolResults) -> list[Table]:
    by_scene: dict[str, Callable[[PoolResults], Table]] = {
        "pairs": pairs_table,
        "threads": threads_table,
        "memory": memory_table,
        "ring": ring_table,
        "slots": slots_table,
    }
    tables = [by_scene["pairs"](results)] if results.cells("pairs") else []
    tables += [container_table(results, cell) for cell in results.cells("containers")]
    tables += [
        build(results) for scene, build in by_scene.items() if scene != "pairs" and results.cells(scene)
    ]
    return [*tables, goals.table_of(pool_goals.all_goals(results)), lost_table(results)] if results.runs else []


def summary(results: PoolResults) -> list[str]:
    lines = [f"note: {notice}" for notice in results.notices]
    lines += [
        f"FAILED: {failure['scene']} {failure['cell']}, {failure['contender']}, "
        f"round {failure['round'] + 1}: {failure['reason']}"
        for failure in results.failures
    ]
    if results.protocol.get("quick"):
        lines.append("note: a quick session, with a small part of the work: no figures to quote")
    return lines


def generated(results: PoolResults) -> str:
    """What stands between the markers of docs/pools-benchmarks.md."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    parts = [
        f"{machine_line(results.machine)}. {results.rounds()} rounds.",
        f"Versions: {versions}." if versions else "",
        *(f"- {line}" for line in summary(results)),
        *(table.markdown() for table in all_tables(results)),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip())
