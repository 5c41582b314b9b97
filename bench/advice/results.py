# SPDX-License-Identifier: MIT
"""The results file of the advice benchmark: JSON, one program per line, so that an interrupted run goes on where it was.

The last line of a program counts. A line that is cut off, as by a full disk, is as if it were not there.
"""
import json
import os


def load(path):
    """By program."""
    found = {}
    if not os.path.exists(path):
        return found
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                result = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(result, dict) and "program" in result:
                found[result["program"]] = result
    return found


def store(path, results):
    with open(path + ".new", "w", encoding="utf-8") as file:
        for result in results.values():
            file.write(json.dumps(result, sort_keys=True) + "\n")
    os.replace(path + ".new", path)
