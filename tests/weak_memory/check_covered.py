#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every atomic operation with an order stronger than relaxed belongs to a protocol that has a model.

Compares the sources with the lines "Covers: FILE: VARIABLE.OPERATION ORDER, …" of the models in this folder. Exit
status: 0 they agree; 1 an operation has no model, or a model names an operation that is not in the sources.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["src", "include", "profiler", "cli"]
ORDERS = r"(acquire|release|acq_rel|seq_cst)"
CALL = re.compile(r"([A-Za-z_]\w*)(?:\[[^][]*\]|\(\))*(?:\.|->)(load|store|exchange|compare_exchange_weak|"
                  r"compare_exchange_strong|fetch_\w+|test_and_set|clear|wait)\s*\(")
BUILTIN = re.compile(r"__atomic_(load|store|exchange)_n\s*\(")
FENCE = re.compile(r"(atomic_(?:thread|signal)_fence)\s*\(")


def arguments(text, start):
    """The text between the parenthesis before `start` and the matching one."""
    depth, end = 1, start
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[start:end - 1]


def operations(text):
    """All ordered operations of a source text, as "VARIABLE.OPERATION ORDER"."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    found = set()
    for match in CALL.finditer(text):
        for order in re.findall(rf"memory_order(?:_|::){ORDERS}", arguments(text, match.end())):
            found.add(f"{match[1]}.{match[2]} {order}")
    for match in BUILTIN.finditer(text):
        within = arguments(text, match.end())
        for order in re.findall(r"__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)", within):
            variable = re.search(r"(\w+)\W*,", within)
            found.add(f"{variable[1]}.{match[1]} {order.lower()}")
    for match in FENCE.finditer(text):
        for order in re.findall(rf"memory_order(?:_|::){ORDERS}", arguments(text, match.end())):
            found.add(f"{match[1]} {order}")
    return found


def in_sources():
    found = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".hpp", ".cpp", ".h"):
                name = path.relative_to(ROOT).as_posix()
                found |= {f"{name}: {operation}" for operation in operations(path.read_text())}
    return found


def in_models():
    named = set()
    for path in sorted(pathlib.Path(__file__).parent.glob("*.cpp")):
        for line in re.findall(r"^// Covers: (.*)$", path.read_text(), flags=re.M):
            name, _, listed = line.partition(": ")
            named |= {f"{name}: {operation.strip()}" for operation in listed.split(",") if operation.strip()}
    return named


def main():
    sources, models = in_sources(), in_models()
    for operation in sorted(sources - models):
        print(f"no model covers {operation}")
    for operation in sorted(models - sources):
        print(f"a model covers {operation}, which is not in the sources")
    print(f"{len(sources)} ordered operations, {len(sources & models)} covered")
    return 0 if sources == models else 1


if __name__ == "__main__":
    sys.exit(main())
