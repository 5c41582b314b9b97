# SPDX-License-Identifier: MIT
"""The tables of the recycler benchmarks: small objects, buffers, documents, what has to be reached, and what was lost."""

from report import goals, recycler_goals
from report.markdown import machine_line
from report.pool_tables import cell_text, label, summary
from report.recycler_results import RecyclerResults
from report.tables import Table

SMALL = ("get_release", "parallel", "burst100", "cross")


def in_order(results: RecyclerResults, scenes: tuple[str, ...]) -> list[str]:
    """Who has a figure in one of the scenes; recyclers first."""
    present = {run["contender"] for run in results.runs if run["scene"] in scenes}
    ranks = {"tarn": 0, "peer": 1, "reference": 2}
    names = [name for name in results.kinds if name in present]
    return sorted(names, key=lambda name: ranks[results.kinds[name]])


def small_table(results: RecyclerResults) -> Table:
    columns = [(scene, cell) for scene in SMALL for cell in sorted(results.cells(scene))]
    table = Table(
        "An object of 64 bytes, ns per get and give: median [lowest..highest]",
        ["contender", *(", ".join(word for word in column if word) for column in columns)],
    )
    for name in in_order(results, SMALL):
        cells = [cell_text(results.values(scene, cell, name, "ns"), 2) for scene, cell in columns]
        table.rows.append([label(results, name), *cells])
    return table


def counted_table(results: RecyclerResults, scene: str, title: str) -> Table:
    table = Table(
        f"{title}: median [lowest..highest]",
        ["contender", "ns", "allocations", "allocated bytes"],
    )
    for name in in_order(results, (scene,)):
        values = {
            figure: results.values(scene, "", name, figure) for figure in ("ns", "allocations", "bytes")
        }
        counts = [cell_text(values[figure], 1) for figure in ("ns", "allocations", "bytes")]
        table.rows.append([label(results, name), *counts])
    return table


def lost_table(results: RecyclerResults) -> Table:
    table = Table(
        "Where a peer was ahead of tarn", ["figure: who was ahead, the best of tarn's (by what factor)"]
    )
    table.rows = [[line] for line in recycler_goals.lost(results)] or [["nowhere"]]
    return table


def all_tables(results: RecyclerResults) -> list[Table]:
    if not results.runs:
        return []
    tables = []
    if any(results.cells(scene) for scene in SMALL):
        tables.append(small_table(results))
    if results.cells("buffer10k"):
        tables.append(counted_table(results, "buffer10k", "A buffer of 10,000 bytes, filled once"))
    if results.cells("json"):
        documents = counted_table(results, "json", "A document of some 1,000 bytes, parsed")
        documents.remarks.append(
            "C++: simdjson's DOM; Go: encoding/json into a struct. Compare within a language only"
        )
        tables.append(documents)
    return [*tables, goals.table_of(recycler_goals.all_goals(results)), lost_table(results)]


def generated(results: RecyclerResults) -> str:
    """What stands between the markers of docs/recycler-benchmarks.md."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    load = results.machine.get("load_before")
    parts = [
        f"{machine_line(results.machine)}. {results.rounds()} rounds"
        + (f", load {load[0]} at the start." if load else "."),
        f"Versions: {versions}." if versions else "",
        *(f"- {line}" for line in summary(results)),
        *(table.markdown() for table in all_tables(results)),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip())
