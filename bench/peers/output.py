# SPDX-License-Identifier: MIT
"""Reads what other languages' benchmark harnesses print: `go test -bench`, and JMH's JSON. Both become figures by the
names that tarn's programs print."""

import json
import math
import re

# BenchmarkName-2   123456   8.31 ns/op   0 B/op   0 allocs/op
GO_LINE = re.compile(r"^(Benchmark\S+?)(?:-\d+)?\s+(\d+)\s+(.+)$", re.MULTILINE)
GO_FIGURES = {"ns/op": "ns", "B/op": "bytes", "allocs/op": "allocations"}


class OutputError(ValueError):
    """A harness printed something else than one benchmark's figures; the message says what."""


def number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no figure")
    return value


def last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "nothing")


def parse_go(text: str, name: str) -> dict[str, float]:
    """The figures of Benchmark<name>, of which there must be one line."""
    lines = [match for match in GO_LINE.finditer(text) if match.group(1) == f"Benchmark{name}"]
    if len(lines) != 1:
        raise OutputError(f"go printed {len(lines)} lines of Benchmark{name}; the last: {last_line(text)}")
    words = lines[0].group(3).split()
    figures = {}
    try:
        for value, unit in zip(words[::2], words[1::2]):
            if unit in GO_FIGURES:
                figures[GO_FIGURES[unit]] = number(value)
    except ValueError as error:
        raise OutputError(f"Benchmark{name}: {error}: {lines[0].group(0)}") from error
    if "ns" not in figures:
        raise OutputError(f"Benchmark{name} has no ns/op: {lines[0].group(0)}")
    return figures


def parse_jmh(text: str, method: str) -> dict[str, float]:
    """The figures of one method, of the class that has it. JMH's average time is that of each thread; the figure is wall
    time over the operations of all threads, as Go counts."""
    try:
        entries = json.loads(text)
        found = [each for each in entries if each["benchmark"].rpartition(".")[2] == method]
        if len(found) != 1:
            raise OutputError(f"JMH has {len(found)} results of {method} among {len(entries)}")
        entry = found[0]
        metric = entry["primaryMetric"]
        if entry["mode"] != "avgt" or metric["scoreUnit"] != "ns/op":
            raise OutputError(f"JMH's figure of {method} is not its average time in ns")
        figures = {"ns": number(metric["score"]) / entry["threads"]}
        allocated = entry.get("secondaryMetrics", {}).get("gc.alloc.rate.norm")
        if allocated is not None:
            figures["bytes"] = number(allocated["score"])
        return figures
    except OutputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise OutputError(f"JMH's results cannot be read: {error!r}") from error
