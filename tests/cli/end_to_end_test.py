#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""End-to-end tests of the `tarn` command: real processes, tiny programs.

Usage: end_to_end_test.py --tarn BIN [--library LIB | --stand-in LIB] [--compiler CXX] GROUP...
A group is a class of one of the files *_test.py beside this one. With --stand-in the command is tested apart from the engine.
"""
import argparse
import importlib
import os
import pathlib
import re
import sys
import unittest

from harness import settings


def tests_of(group):
    for path in pathlib.Path(__file__).parent.glob("*_test.py"):
        if re.search(rf"^class {group}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            return unittest.defaultTestLoader.loadTestsFromTestCase(getattr(importlib.import_module(path.stem), group))
    sys.exit(f"no group {group}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tarn", required=True, type=os.path.abspath)
    libraries = parser.add_mutually_exclusive_group(required=True)
    libraries.add_argument("--stand-in", type=os.path.abspath)
    libraries.add_argument("--library", type=os.path.abspath)
    parser.add_argument("--compiler", default="c++")
    for word in ("--cost-loop", "--recorder", "--profile-target", "--profile-dump", "--make-profile", "--hostile-session",
                 "--attach-target", "--leak-target"):
        parser.add_argument(word)
    parser.add_argument("groups", nargs="+")
    arguments = parser.parse_args()
    vars(settings).update(vars(arguments))
    settings.library = arguments.library or arguments.stand_in
    result = unittest.TextTestRunner(verbosity=1).run(unittest.TestSuite(map(tests_of, arguments.groups)))
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"not tested: {reason}")
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)  # CTest counts it as skipped
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)


if __name__ == "__main__":
    main()
