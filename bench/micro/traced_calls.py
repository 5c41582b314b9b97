# SPDX-License-Identifier: MIT
"""traced_calls.py PROGRAM BATCH: runs traced_calls under valgrind, with batches of so many blocks, and prints for each scene how many
instructions an operation takes, and how many cache lines of data and of code it touches; as one JSON object.

The figures depend on the library and its compiler alone, not on the machine, its caches or its load. Lines of the stack do not count:
they are in the cache. A line that two calls touch counts for both."""

import json
import subprocess
import sys
import tempfile

LINE_SHIFT = 6
STACK = 1 << 16  # bytes around main's frame


class Call:
    """What lies between two marks."""

    def __init__(self):
        self.instructions, self.code, self.data = 0, set(), set()

    def add(self, kind, address, size, stack):
        lines = range(address >> LINE_SHIFT, ((address + size - 1) >> LINE_SHIFT) + 1)
        if kind == "I":
            self.instructions += 1
            self.code.update(lines)
        elif abs(address - stack) > STACK:
            self.data.update(lines)


def calls(trace, begin, end, stack):
    """One for each pair of marks."""
    begin, end = (f" S {int(each, 16):08x}," for each in (begin, end))
    call = None
    for text in trace:
        if call is None:
            if text.startswith(begin):
                call = Call()
        elif text.startswith(end):
            yield call
            call = None
        elif text[:2] in ("I ", " L", " S", " M"):
            address, _, size = text[3:].partition(",")
            call.add(text[:2].strip(), int(address, 16), int(size), stack)


def main():
    with tempfile.NamedTemporaryFile("r", prefix="tarn-trace") as trace:
        command = ["valgrind", "--tool=lackey", "--basic-counts=no", "--trace-mem=yes", f"--log-file={trace.name}", *sys.argv[1:]]
        first, *scenes = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        begin, end, stack = first.split("\t")
        found = calls(trace, begin, end, int(stack, 16))
        figures = {}
        for name, count, operations in (each.split("\t") for each in scenes):
            of_scene = [next(found) for _ in range(int(count))]
            for what, of_call in (("instructions", lambda c: c.instructions), ("data lines", lambda c: len(c.data)), ("code lines", lambda c: len(c.code))):
                figures[f"{name}: {what}"] = sum(map(of_call, of_scene)) / int(operations)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
