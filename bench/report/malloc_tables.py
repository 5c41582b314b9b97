# SPDX-License-Identifier: MIT
"""The tables of the suite malloc: medians, ratios to the best and the leanest, noise, single calls and scaling."""

from report import statistics
from report.results import TWIN, Results
from report.table import Table, cell_table, number

SUBJECT = "tarn"
TIME_LIMIT = 1.10  # rows of tarn above this are called out
RSS_LIMIT = 1.60
ROWS = ("workload", "real")
CALLS = ("bench_cycles", "bench_micro")


def medians_table(results: Results) -> Table:
    seconds, rss = results.grid(ROWS, "seconds"), results.grid(ROWS, "rss")
    spreads = results.grid(ROWS, "seconds", statistics.spread)

    def text(row: str, name: str) -> str:
        return f"{seconds[row][name]:.3f} ±{spreads[row][name] * 100:.0f} / {rss[row][name] / 1e6:.1f}"

    return cell_table("Median seconds ± half the range in % / peak RSS in MB", seconds, results.names(), text)


def cost_table(results: Results) -> Table:
    cpu, faults = results.grid(ROWS, "cpu"), results.grid(ROWS, "minor")

    def text(row: str, name: str) -> str:
        return f"{cpu[row][name]:.2f} / {faults[row][name] / 1000:.1f}"

    title = "Median CPU seconds (user + system) / minor page faults in thousands"
    return cell_table(title, cpu, results.names(), text)


def ratio_table(results: Results, value: str, reference: list[str], title: str, limit: float) -> Table:
    """Ratios with their geometric means, rows won and worst rows. `reference` is whose best counts as 1."""
    names, originals = results.names(), results.originals()
    ratios = statistics.ratios_to_best(results.grid(ROWS, value), reference)

    def text(row: str, name: str) -> str:
        lowest = statistics.best(ratios[row], originals)
        return f"{ratios[row][name]:.2f}" + ("*" if lowest and name == lowest[0] else "")

    table = cell_table(title, ratios, names, text)
    groups = {"geomean, all": results.cells(*ROWS)}
    if all(results.cells(group) for group in ROWS):
        groups |= {"geomean, workloads": results.cells("workload"), "geomean, real programs": results.cells("real")}
    for label, rows in groups.items():
        table.rows.append([label, *(number(statistics.mean_of_column(ratios, name, rows), 3) for name in names)])
    table.rows.append(["rows won", *(str(statistics.rows_won(ratios, name, originals)) for name in names)])
    worst = [statistics.worst_row(ratios, name) for name in names]
    table.rows.append(["worst row", *(f"{found[1]:.2f} {found[0]}" if found else "-" for found in worst)])
    table.remarks = ["* the best of the row", *lost_rows(results, value, reference, limit)]
    return table


def time_table(results: Results) -> Table:
    return ratio_table(results, "seconds", results.names("peer"), "Time over the best peer of the row", TIME_LIMIT)


def rss_table(results: Results) -> Table:
    return ratio_table(results, "rss", results.originals(), "Peak RSS over the leanest of the row", RSS_LIMIT)


def lost_rows(results: Results, value: str, reference: list[str], limit: float) -> list[str]:
    """In words: every row in which somebody was better than tarn, the worst first."""
    if SUBJECT not in results.names():
        return []
    grid = results.grid(ROWS, value)
    ratios = statistics.column(statistics.ratios_to_best(grid, reference), SUBJECT)
    lost = sorted(((ratio, row) for row, ratio in ratios.items() if ratio > 1.0), reverse=True)
    if not lost:
        return [f"{SUBJECT} is the best in every row"]
    words = []
    for ratio, row in lost:
        winner = statistics.best(grid[row], [name for name in reference if name != SUBJECT])
        words.append(f"{row} {ratio:.2f} ({winner[0]}{', above ' + number(limit) if ratio > limit else ''})")
    return [f"rows lost by {SUBJECT}, and to whom: {', '.join(words)}"]


def noise_table(results: Results) -> Table:
    """Empty where nobody runs under two names."""
    table = Table("", ["figure", "mean", "largest", "row"])
    for twin_name in results.names("twin"):
        name = twin_name.removesuffix(TWIN)
        table.title = f"Noise: {name} under two names, the second over the first"
        for label, value in (("time", "seconds"), ("CPU", "cpu"), ("peak RSS", "rss")):
            if noise := statistics.twin_noise(results.grid(ROWS, value), name, twin_name):
                table.rows.append([label, number(noise[0], 3), number(noise[1], 3), noise[2]])
    return table


def micro_table(results: Results) -> Table:
    runs = [run for run in results.runs if run["scene"] in CALLS]
    names = [name for name in results.names() if any(run["contender"] == name for run in runs)]
    scenes = {figure: run["scene"] for run in runs for figure in run["figures"]}
    grid = {figure: results.column(scene, "", figure) for figure, scene in scenes.items()}
    ratios = statistics.ratios_to_best(grid, results.names("peer"))

    def text(figure: str, name: str) -> str:
        return f"{grid[figure][name]:.2f} ({number(ratios.get(figure, {}).get(name))})"

    title = "Single calls, median over processes (in brackets: over the best peer)"
    return cell_table(title, grid, names, text, "test")


def scaling_tables(results: Results) -> list[Table]:
    """For each workload: seconds for the same work on T threads, and the gain over one thread."""
    grid = results.grid(("scaling",), "seconds")
    names = [name for name in results.names() if any(name in cells for cells in grid.values())]
    by_program: dict[str, statistics.Grid] = {}
    for row in sorted(grid, key=lambda row: int(row.rpartition("@")[2])):
        program, _, threads = row.rpartition("@")
        by_program.setdefault(program, {})[threads] = grid[row]
    tables = []
    for program in dict.fromkeys(row.rpartition("@")[0] for row in grid):
        lines = by_program[program]

        def text(threads: str, name: str) -> str:
            seconds, one = lines[threads][name], lines.get("1", {}).get(name)
            return f"{seconds:.3f}" + (f" ({one / seconds:.2f})" if one else "")

        title = f"Scaling: {program}, seconds for the same work (gain over one thread)"
        tables.append(cell_table(title, lines, names, text, "threads"))
    return tables


def tables(results: Results) -> list[Table]:
    found = []
    if results.cells(*ROWS):
        found = [part(results) for part in (medians_table, cost_table, time_table, rss_table, noise_table)]
    return [table for table in [*found, micro_table(results), *scaling_tables(results)] if table.rows]


def closing(results: Results) -> list[str]:
    """tarn's figures in one sentence."""
    peers = results.names("peer")
    if not (results.cells(*ROWS) and SUBJECT in results.names() and peers):
        return []
    times = statistics.ratios_to_best(results.grid(ROWS, "seconds"), peers)
    memory = statistics.ratios_to_best(results.grid(ROWS, "rss"), results.originals())
    return [
        f"{SUBJECT}: time {number(statistics.mean_of_column(times, SUBJECT), 3)} of the best peer of each "
        f"row, peak RSS {number(statistics.mean_of_column(memory, SUBJECT), 3)} of the leanest of each "
        f"row (geometric means over {len(statistics.column(times, SUBJECT))} rows)"
    ]
