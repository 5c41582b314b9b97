# SPDX-License-Identifier: MIT
"""What the matrix says at its end, and its page, docs/reference/tried-with.md."""

import platform
import re
import textwrap
from collections import Counter
from datetime import date
from pathlib import Path

from ways import WAYS

HEAD = """# Programs that tarn was tried with

Written by `tests/world/run.py` from its results; do not edit. Each program ran once without tarn and once in each way that is named:
with the same output and exit status, no hang, no process left behind, and in the ways that write a profile, functions of the program
named in it. Brackets have the ways where it was not all of them; what failed, or cannot be, stands at the end.

| way | is |
|---|---|
| preload, hardened | `LD_PRELOAD` of libtarn.so.1, of libtarn-hardened.so.1 |
| built-in | the same with `TARN_PROFILE=on` |
| sample, full | `tarn profile` in that mode |
| attach | `tarn attach` for 0.7 s, in the middle of the run |
| shim | libtarn-jemalloc.so.2, for programs that link jemalloc |

"""
ALL = [way for way in WAYS if way != "shim"]


def say(cells: list[dict]) -> int:
    counts = Counter(each["result"] for each in cells)
    for each in cells:
        if each["result"] == "not here":
            print(f"not here: {each['program']}: {each['note']}")
    for each in cells:
        if each["result"] == "failed":
            print(f"FAILED: {each['program']}, {each['way']}: {each['note']}")
    for way in WAYS:
        of_way = Counter(each["result"] for each in cells if each["way"] == way)
        if of_way:
            print(f"{way:9} {of_way['passed']:4} passed {of_way['failed']:4} failed {of_way['not applicable']:4} not applicable")
    run = counts["passed"] + counts["failed"]
    print(f"{run} cells run: {counts['passed']} passed, {counts['failed']} failed; {counts['not applicable']} not applicable")
    if counts["failed"]:
        return 1
    return 0 if run else 77


def number_in(version: str) -> str:
    """What a program prints, without its name, compiler and date."""
    found = re.search(r"\d+(?:\.\d+)+", version) or re.search(r"\d+", version)
    return found[0] if found else version


def ways_of(tried: dict[str, dict]) -> str:
    passed = [way for way in WAYS if way in tried and tried[way]["result"] == "passed"]
    if passed == ALL:
        return ""
    return " (" + ", ".join(["all", *passed[len(ALL):]] if passed[:len(ALL)] == ALL else passed or ["none"]) + ")"


def reasons_of(program: str, tried: dict[str, dict]) -> list[str]:
    ways: dict[tuple[str, str], list[str]] = {}
    for way, each in tried.items():
        if each["result"] != "passed":
            ways.setdefault((each["result"], each["note"]), []).append(way)
    return [f"- {program}, {', '.join(of_note)}: {'**failed**: ' if result == 'failed' else ''}{note}"
            for (result, note), of_note in ways.items()]


def write(path: Path, rows: list, cells: list[dict], versions: dict[str, str]) -> None:
    by_program: dict[str, dict[str, dict]] = {}
    for each in cells:
        by_program.setdefault(each["program"], {})[each["way"]] = each
    shown = [row for row in rows if by_program.get(row.name) and "none" not in by_program[row.name]]
    lines = [f"Tried on {date.today()}, {platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release().split('-')[0]}, "
             f"{platform.machine()}."]
    kinds = [row.field.split(";")[0] for row in shown]
    for kind in dict.fromkeys(kinds):
        names = [f"{row.name} {number_in(versions.get(row.name, ''))}".rstrip() + ways_of(by_program[row.name])
                 for row, of_row in zip(shown, kinds) if of_row == kind]
        lines += ["", *textwrap.wrap(f"**{kind}**: {', '.join(names)}", 130, break_on_hyphens=False)]
    reasons = [reason for row in shown for reason in reasons_of(row.name, by_program[row.name])]
    path.write_text(HEAD + "\n".join([*lines, "", *reasons]).rstrip() + "\n")
