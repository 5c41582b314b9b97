# SPDX-License-Identifier: MIT
"""Makes profiler/analyze/experience_table.inc, the intervals of all advice, from the results of the half "fit".

A row says how much of what a rule or a replay says is saved: quantiles of measured over said, over the programs. Page faults are
counted and not guessed: of another malloc the rest alone counts, what is said of malloc's own part. Where many small blocks live
(placement), another malloc changes the program's own time as well: such programs say, in the last column of their row, which part
of the own time was saved beyond the highest factor.
"""
import os

from advice.judgement import NOISE

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiler", "analyze", "experience_table.inc")
KINDS = {"tunable": "tunable", "huge pages": "huge_pages", "another malloc": "allocator", "typed pool": "typed_pool",
         "object pool": "object_pool", "buffer pool": "buffer_pool"}
LOW, HIGH = 0.1, 0.9  # of the residuals, what an interval holds
# The least and the most of few programs hold less than that of others; so an interval is wider than they were.
WIDER_LOW, WIDER_HIGH = 0.85, 1.2
FEWEST = 3  # programs that a row rests on
SMALLEST = 0.01  # of CPU time: what is said to save less says nothing about a factor


def quantile(values, part):
    values = sorted(values)
    at = part * (len(values) - 1)
    below = int(at)
    return values[below] + (at - below) * (values[min(below + 1, len(values) - 1)] - values[below])


def residuals(results, kind, list_name):
    """Of each program: what was said of malloc's own part, what was saved of it, its placement and its own time."""
    for result in results:
        for one in result[list_name]:
            if one["kind"] != kind:
                continue
            saved = result["measured"][one["way"]]["saved"]
            yield one["raw"] - one["raw_fault"], saved - one["raw_fault"], result["placement"], result["own"]


def factors(rows):
    """Low, middle, high and the number of programs; None: too few."""
    ratios = [max(0.0, saved) / said for said, saved, _, _ in rows if said >= SMALLEST]
    if len(ratios) < FEWEST:
        return None
    middle = quantile(ratios, 0.5)
    return min(middle, WIDER_LOW * quantile(ratios, LOW)), middle, max(middle, WIDER_HIGH * quantile(ratios, HIGH)), len(ratios)


def own_part(rows, high):
    """Of the program's own time, what was saved beyond the highest factor."""
    more = [max(0.0, saved - high * max(0.0, said)) / own for said, saved, _, own in rows if own > NOISE]
    return WIDER_HIGH * quantile(more, HIGH) if len(more) >= FEWEST else 0


def fit(results):
    """(kind, grade, placement) -> low, middle, high, programs, own."""
    fitted = {}
    for kind, name in KINDS.items():
        for grade, list_name in (("estimated", "estimated"), ("replayed", "told")):
            rows = list(residuals(results, kind, list_name))
            compact = [row for row in rows if not row[2]] if kind == "another malloc" else rows
            found = factors(compact)
            if found is None:
                continue
            fitted[name, grade, "none"] = (*found, 0)
            if kind == "another malloc":
                low, middle, high, _ = found
                lowest = factors(rows)[0]
                open_ones = [row for row in rows if row[2]]
                fitted[name, grade, "possible"] = (min(low, lowest), middle, high, len(open_ones), own_part(open_ones, high))
    return fitted


def write_table(results, path=TABLE):
    """Keeps the rows of what was not fitted: changes that need an edit."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for (kind, grade, placement), (low, middle, high, programs, own) in fit(results).items():
        begin = f"{{advice_kind::{kind}, advice_grade::{grade}, placement_effect::{placement},"
        line = f"{begin} {{{low:.3g}, {middle:.3g}, {high:.3g}, {programs}, {own:.3g}}}}},"
        same = [index for index, old in enumerate(lines) if old.startswith(begin)]
        if same:
            lines[same[0]] = line
        else:
            lines.append(line)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
