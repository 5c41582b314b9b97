# SPDX-License-Identifier: MIT
"""What the matrix says at its end, and its page, docs/reference/tried-with.md."""

import platform
from collections import Counter
from datetime import date
from pathlib import Path

from ways import WAYS

MARKS = {"passed": "yes", "failed": "**no**", "not applicable": "–"}
HEAD = """# Programs that tarn was tried with

Written by `tests/world/run.py` from its results; do not edit. Each program ran once without tarn and once in each way; "yes" means: the
same output and exit status, no hang, no process left behind, and in the ways that write a profile, functions of the program
named in it. "–": it cannot be; the reason is below the table. `attach` attached and detached in the middle of the run.

| way | is |
|---|---|
| preload, hardened | `LD_PRELOAD` of libtarn.so.1, of libtarn-hardened.so.1 |
| built-in | the same with `TARN_PROFILE=on` |
| sample, full | `tarn profile` in that mode |
| attach | `tarn attach` for 0.7 s |
| shim | libtarn-jemalloc.so.2, for programs that link jemalloc |

"""


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


def write(path: Path, rows: list, cells: list[dict], versions: dict[str, str]) -> None:
    by_program: dict[str, dict[str, dict]] = {}
    for each in cells:
        by_program.setdefault(each["program"], {})[each["way"]] = each
    lines = [f"Tried on {date.today()}, {platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release().split('-')[0]}, "
             f"{platform.machine()}.", "", f"| program | version | kind | {' | '.join(WAYS)} |", f"|---|---|---|{'---|' * len(WAYS)}"]
    reasons = []
    for row in rows:
        tried = by_program.get(row.name, {})
        if not tried or "none" in tried:
            continue
        marks = [MARKS[tried[way]["result"]] if way in tried else "" for way in WAYS]
        lines.append(f"| {row.name} | {versions.get(row.name, '').replace('|', '/')} | {row.field} | {' | '.join(marks)} |")
        reasons += [f"- {row.name}, {each['way']}: {each['note']}" for each in tried.values() if each["result"] != "passed"]
    path.write_text(HEAD + "\n".join([*lines, "", *reasons]).rstrip() + "\n")
