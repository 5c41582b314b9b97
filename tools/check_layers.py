#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the includes of src/, profiler/ and cli/: no folder includes from one above it, the engine includes only from
src/ and include/, public headers include only from include/, and no files include each other in a circle (a header and
its source count as one). With --draw it prints which folder includes from which."""

import re
import sys

from project_includes import ROOT, includes_of

# Lowest first: each folder may include from itself and from the folders before it.
ORDER = {
    "src": [*re.search(r"^set\(TARN_LAYERS (.*)\)$", (ROOT / "src/CMakeLists.txt").read_text(), re.M)[1].split(),
            "malloc/jemalloc", "background/rights"],
    "profiler": ["format", "proc", "model", "record", "attach", "analyze", "collect", "export", "report", "apply", "tail"],
    "cli": ["show", "launch", "compare", "cost", "recording", "views", "control", "agent", "manual", "commands"],
}
# Each tree may include from the trees before it.
TREES = ["src", "profiler", "cli"]


def tree_and_folder(path):
    tree, *folders = path.relative_to(ROOT).parent.parts
    return tree, "/".join(folders) or None


def room_of(folder):
    return folder.split("/")[0]


def problem_with(source, target):
    """What is wrong with `source` including `target`, or None."""
    tree, folder = tree_and_folder(source)
    other_tree, other = tree_and_folder(target)
    if other_tree == "include":
        return None
    if tree == "src" and other_tree != "src":
        return "the engine includes from src/ and include/ only"
    if other_tree not in TREES or TREES.index(other_tree) > TREES.index(tree):
        return f"{tree}/ stands below {other_tree}/; pass what is needed as a parameter, or move the code down"
    if tree == other_tree and folder and ORDER[tree].index(other) > ORDER[tree].index(folder):
        return f"{folder}/ stands below {other}/; pass what is needed as a parameter, or move the code down"
    return None


def circles_of(graph):
    """The strongly connected components with more than one node (Tarjan's algorithm)."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            members = set(stack[stack.index(node):])
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(members)

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def circle_problems(graph):
    for circle in circles_of(graph):
        yield f"{min(circle)}.hpp:1: these include each other in a circle: {', '.join(sorted(circle))}"


def matrix_of(tree, edges):
    """The dependency structure matrix of a tree's rooms: a mark in column j of row i if room i includes from room j."""
    folders = list(dict.fromkeys(map(room_of, ORDER[tree])))
    width = max(map(len, folders))
    lines = [" ".join(["   ", tree.ljust(width), *(str(column).rjust(2) for column in range(1, len(folders) + 1))])]
    for row, folder in enumerate(folders):
        marks = ["x" if (folder, other) in edges else "-" if column == row else "." for column, other in enumerate(folders)]
        lines.append(" ".join([str(row + 1).rjust(3), folder.ljust(width), *(mark.rjust(2) for mark in marks)]))
    return lines


def main():
    sys.setrecursionlimit(10000)
    sources = sorted(p for tree in TREES for p in (ROOT / tree).rglob("*") if p.suffix in {".hpp", ".cpp", ".h", ".c"})
    problems, graph, edges = [], {}, {tree: set() for tree in TREES}
    for source in sources:
        tree, folder = tree_and_folder(source)
        if folder is not None and folder not in ORDER[tree]:
            problems.append(f"{source.relative_to(ROOT)}:1: {tree}/{folder} is not a layer of ORDER in {sys.argv[0]}")
            continue
        for line, target in includes_of(source):
            problem = problem_with(source, target)
            if problem:
                problems.append(f"{source.relative_to(ROOT)}:{line}: {target.relative_to(ROOT)}: {problem}")
            other_tree, other = tree_and_folder(target)
            if tree == other_tree and folder and room_of(folder) != room_of(other):
                edges[tree].add((room_of(folder), room_of(other)))
            names = [str(path.relative_to(ROOT).with_suffix("")) for path in (source, target)]
            if names[0] != names[1]:
                graph.setdefault(names[0], set()).add(names[1])
    problems += circle_problems(graph)
    if "--draw" in sys.argv[1:]:
        print("\n\n".join("\n".join(matrix_of(tree, edges[tree])) for tree in TREES))
    for header in sorted((ROOT / "include").rglob("*.h*")):
        for line, target in includes_of(header):
            if not target.is_relative_to(ROOT / "include"):
                problems.append(f"{header.relative_to(ROOT)}:{line}: a public header includes {target.relative_to(ROOT)}")
    print("\n".join(problems), end="\n" if problems else "")
    if not problems:
        print("\n".join(f"{tree}: {len(sources_of(sources, tree))} files keep the order {' <- '.join(ORDER[tree])}" for tree in TREES))
    return 1 if problems else 0


def sources_of(sources, tree):
    return [source for source in sources if tree_and_folder(source)[0] == tree]


if __name__ == "__main__":
    sys.exit(main())
