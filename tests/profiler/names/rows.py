# SPDX-License-Identifier: MIT
# A program for the tests of names: it allocates blocks too large for Python's own pools through call paths of each
# kind: a generator, a constructor, a native callback, a library, recursion, a thread, a child process.
import json
import os
import sys
import threading

BYTES = 5000


def make(count):
    return [bytearray(BYTES) for _ in range(count)]


def by_generator(count):
    for _ in range(count):
        yield bytearray(BYTES)


class Table:
    def __init__(self):
        self.rows = bytearray(BYTES)

    def sort_key(self, number):
        self.rows = bytearray(BYTES)
        return -number


def in_native_callback(count):
    return sorted(range(count), key=Table().sort_key)


def in_library(count):
    return [json.loads(json.dumps("x" * BYTES)) for _ in range(count)]


def deep(levels):
    return deep(levels - 1) if levels else bytearray(BYTES)


def main():
    kept = [make(20), list(by_generator(20)), in_native_callback(20), in_library(20)]
    kept.append([deep(30) for _ in range(20)])
    thread = threading.Thread(target=make, args=(20,), name="maker")
    thread.start()
    thread.join()
    if len(sys.argv) > 1:
        child = os.fork()
        if child == 0:
            kept.append(make(20))
            os._exit(0)
        os.waitpid(child, 0)
    return len(kept)


main()
