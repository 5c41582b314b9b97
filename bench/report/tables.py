# SPDX-License-Identifier: MIT
"""The tables that a session ends with, as text for a terminal and as Markdown for docs/benchmarks.md."""

from dataclasses import dataclass, field

from report import statistics
from report.results import Results

SUBJECT = "tarn"
TIME_LIMIT = 1.10  # rows of tarn above this are called out
RSS_LIMIT = 1.60


@dataclass
class Table:
    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def text(self) -> str:
        widths = [
            max(len(line[column]) for line in [self.header, *self.rows]) for column in range(len(self.header))
        ]

        def line(cells: list[str]) -> str:
            first = cells[0].ljust(widths[0])
            return "  ".join(
                [first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]
            ).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        return (
            "\n".join([self.title, rule, line(self.header), rule, *map(line, self.rows), rule, *self.remarks])
            + "\n"
        )

    def markdown(self) -> str:
        def line(cells: list[str]) -> str:
            return "| " + " | ".join(cells) + " |"

        ruler = "|---|" + "---:|" * (len(self.header) - 1)
        body = [f"### {self.title}", "", line(self.header), ruler, *map(line, self.rows), ""]
        return "\n".join(body + [f"- {remark}" for remark in self.remarks]) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def medians_table(results: Results) -> Table:
    names = results.names()
    seconds, rss = results.grid("seconds"), results.grid("rss")
    spreads = results.grid("seconds", statistics.spread)
    table = Table("Median seconds ± half the range in % / peak RSS in MB", ["row", *names])
    for row, cells in seconds.items():
        table.rows.append(
            [
                row,
                *(
                    (
                        f"{cells[name]:.3f} ±{spreads[row][name] * 100:.0f} / {rss[row][name] / 1e6:.1f}"
                        if name in cells
                        else "-"
                    )
                    for name in names
                ),
            ]
        )
    return table


def cost_table(results: Results) -> Table:
    names = results.names()
    cpu, faults = results.grid("cpu"), results.grid("minor")
    table = Table("Median CPU seconds (user + system) / minor page faults in thousands", ["row", *names])
    for row, cells in cpu.items():
        table.rows.append(
            [
                row,
                *(
                    f"{cells[name]:.2f} / {faults[row][name] / 1000:.1f}" if name in cells else "-"
                    for name in names
                ),
            ]
        )
    return table


def ratio_table(results: Results, value: str, reference: list[str], title: str) -> Table:
    """Ratios with their geometric means, rows won and worst rows. `reference` is whose best counts as 1."""
    names = results.names()
    ratios = statistics.ratios_to_best(results.grid(value), reference)
    table = Table(title, ["row", *names])
    for row, cells in ratios.items():
        lowest = statistics.best(cells, results.originals())
        mark = lowest[0] if lowest else None
        table.rows.append(
            [
                row,
                *(
                    (f"{cells[name]:.2f}" + ("*" if name == mark else "")) if name in cells else "-"
                    for name in names
                ),
            ]
        )
    table.rows += mean_rows(results, ratios, names)
    table.rows.append(
        ["rows won", *(str(statistics.rows_won(ratios, name, results.originals())) for name in names)]
    )
    worst = [statistics.worst_row(ratios, name) for name in names]
    table.rows.append(["worst row", *(f"{found[1]:.2f} {found[0]}" if found else "-" for found in worst)])
    table.remarks.append("* the best of the row")
    return table


def mean_rows(results: Results, ratios: statistics.Grid, names: list[str]) -> list[list[str]]:
    groups = [("geomean, all", None)]
    if len({row["group"] for row in results.rows}) > 1:
        groups += [("geomean, workloads", "workload"), ("geomean, real programs", "real")]
    return [
        [
            label,
            *(number(statistics.mean_of_column(ratios, name, results.row_names(group)), 3) for name in names),
        ]
        for label, group in groups
    ]


def time_table(results: Results) -> Table:
    table = ratio_table(results, "seconds", results.peers(), "Time over the best peer of the row")
    table.remarks += lost_rows(results, "seconds", results.peers(), TIME_LIMIT)
    return table


def rss_table(results: Results) -> Table:
    originals = results.originals()
    table = ratio_table(results, "rss", originals, "Peak RSS over the leanest of the row")
    table.remarks += lost_rows(results, "rss", originals, RSS_LIMIT)
    return table


def lost_rows(results: Results, value: str, reference: list[str], limit: float) -> list[str]:
    """In words: every row in which somebody was better than tarn, the worst first."""
    if SUBJECT not in results.names():
        return []
    grid = results.grid(value)
    ratios = statistics.column(statistics.ratios_to_best(grid, reference), SUBJECT)
    lost = sorted(((ratio, row) for row, ratio in ratios.items() if ratio > 1.0), reverse=True)
    if not lost:
        return [f"{SUBJECT} is the best in every row"]
    words = []
    for ratio, row in lost:
        winner = statistics.best(grid[row], [name for name in reference if name != SUBJECT])
        words.append(f"{row} {ratio:.2f} ({winner[0]}{', above ' + number(limit) if ratio > limit else ''})")
    return [f"rows lost by {SUBJECT}, and to whom: {', '.join(words)}"]


def noise_table(results: Results) -> Table | None:
    pair = results.twin()
    if not pair:
        return None
    name, twin_name = pair
    table = Table(
        f"Noise: {name} under two names, the second over the first", ["figure", "mean", "largest", "row"]
    )
    for label, value in (("time", "seconds"), ("CPU", "cpu"), ("peak RSS", "rss")):
        noise = statistics.twin_noise(results.grid(value), name, twin_name)
        if noise:
            table.rows.append([label, number(noise[0], 3), number(noise[1], 3), noise[2]])
    return table if table.rows else None


def micro_table(results: Results) -> Table | None:
    names = [name for name in results.names() if any(entry["contender"] == name for entry in results.micro)]
    tests = list(dict.fromkeys((entry["test"], entry["unit"]) for entry in results.micro))
    if not names:
        return None
    table = Table("Single calls, median over processes (in brackets: over the best peer)", ["test", *names])
    for test, unit in tests:
        collected: dict[str, list[float]] = {}
        for entry in results.micro:
            if entry["test"] == test:
                collected.setdefault(entry["contender"], []).append(entry["value"])
        cells = {name: statistics.median(values) for name, values in collected.items()}
        ratios = statistics.ratios_to_best({test: cells}, results.peers()).get(test, {})
        table.rows.append(
            [
                f"{test}, {unit}",
                *(
                    f"{cells[name]:.2f} ({number(ratios.get(name))})" if name in cells else "-"
                    for name in names
                ),
            ]
        )
    return table


def scaling_tables(results: Results) -> list[Table]:
    """For each workload: seconds for the same work on T threads, and the gain over one thread."""
    grid = results.grid("seconds", runs=results.scaling)
    names = [name for name in results.names() if any(name in cells for cells in grid.values())]
    by_program: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for row, cells in grid.items():
        program, at, threads = row.rpartition("@")
        if at:
            by_program.setdefault(program, []).append((int(threads), cells))
    tables = []
    for program, lines in by_program.items():
        lines.sort(key=lambda line: line[0])
        one = lines[0][1] if lines[0][0] == 1 else {}
        table = Table(
            f"Scaling: {program}, seconds for the same work (gain over one thread)", ["threads", *names]
        )
        for threads, cells in lines:
            table.rows.append(
                [
                    str(threads),
                    *(
                        (
                            f"{cells[name]:.3f}"
                            + (f" ({one[name] / cells[name]:.2f})" if name in one else "")
                            if name in cells
                            else "-"
                        )
                        for name in names
                    ),
                ]
            )
        tables.append(table)
    return tables


def all_tables(results: Results) -> list[Table]:
    tables = []
    if results.runs:
        tables = [
            medians_table(results),
            cost_table(results),
            time_table(results),
            rss_table(results),
            noise_table(results),
        ]
    tables.append(micro_table(results))
    tables += scaling_tables(results) if results.scaling else []
    return [table for table in tables if table]


def summary(results: Results) -> list[str]:
    """What went wrong or is missing, then tarn's figures in one sentence."""
    lines = [f"note: {notice}" for notice in results.notices]
    lines += [
        f"FAILED: {failure['row']} under {failure['contender']}, round {failure['round'] + 1}: "
        f"{failure['reason']}"
        for failure in results.failures
    ]
    if results.runs and SUBJECT in results.names() and results.peers():
        times = statistics.ratios_to_best(results.grid("seconds"), results.peers())
        memory = statistics.ratios_to_best(results.grid("rss"), results.originals())
        lines.append(
            f"{SUBJECT}: time {number(statistics.mean_of_column(times, SUBJECT), 3)} of the best peer of each "
            f"row, peak RSS {number(statistics.mean_of_column(memory, SUBJECT), 3)} of the leanest of each "
            f"row (geometric means over {len(statistics.column(times, SUBJECT))} rows)"
        )
    return lines
