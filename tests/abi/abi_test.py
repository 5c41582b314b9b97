#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares a shared library with the ABI of the last release: its functions, their types, and the public structures.

Usage: abi_test.py LIBRARY HEADERS PROCESSOR           compares with PROCESSOR/NAME.abixml.xz in this folder
       abi_test.py LIBRARY HEADERS PROCESSOR --write   writes that file; when: docs/reference/abi.md

Needs abidiff and abidw (libabigail), and a library with debugging information. Status: 0 the same, or new functions;
1 changed; 77 not compared, with a line that says why.
"""

import argparse
import lzma
import pathlib
import shutil
import subprocess
import sys
import tempfile

# Functions of libc's have the types of libc's headers; whether the library has debugging information of them may vary.
FOREIGN_TYPES = """[suppress_function]
symbol_name_not_regexp = ^tarn_
change_kind = function-subtype-change
"""
HERE = pathlib.Path(__file__).resolve().parent


def skip(why):
    print(f"not compared: {why}")
    sys.exit(77)


def describe(library, headers):
    """The library's ABI as abidw writes it, without the places of its declarations."""
    words = ["abidw", "--headers-dir", headers, "--drop-private-types", "--exported-interfaces-only", "--no-show-locs", "--no-corpus-path",
             "--no-comp-dir-path", "--no-parameter-names", library]
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"abidw fails on {library}: {done.stderr.decode()}")
    if b"tarn_stats" not in done.stdout:
        skip(f"{library} has no debugging information (configure with TARN_BUILD_TESTS=ON)")
    return done.stdout


def changes(baseline, library, headers):
    """What abidiff says about anything but additions; empty if the ABI is compatible."""
    with tempfile.TemporaryDirectory() as folder:
        before = pathlib.Path(folder) / "before.abixml"
        before.write_bytes(lzma.decompress(baseline.read_bytes()))
        now = pathlib.Path(folder) / "now.abixml"
        now.write_bytes(describe(library, headers))
        suppressed = pathlib.Path(folder) / "suppressed"
        suppressed.write_text(FOREIGN_TYPES, encoding="utf-8")
        words = ["abidiff", "--no-added-syms", "--suppressions", suppressed, before, now]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    # Bits of the status: 1 an error, 2 a wrong usage, 4 a change, 8 an incompatible one.
    if done.returncode & 3:
        sys.exit(f"abidiff failed: {done.stdout}{done.stderr}")
    return done.stdout if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("headers", type=pathlib.Path)
    parser.add_argument("processor")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    for tool in ("abidiff", "abidw"):
        if shutil.which(tool) is None:
            skip(f"{tool} is missing (Debian package abigail-tools)")
    name = arguments.library.name.split(".so")[0]
    baseline = HERE / arguments.processor / f"{name}.abixml.xz"
    if arguments.write:
        baseline.parent.mkdir(exist_ok=True)
        baseline.write_bytes(lzma.compress(describe(arguments.library, arguments.headers), preset=9))
        print(f"wrote {baseline}, {baseline.stat().st_size} bytes")
        return 0
    if not baseline.is_file():
        skip(f"there is no {baseline.relative_to(HERE)}: nobody has stored this processor's ABI yet")
    report = changes(baseline, arguments.library, arguments.headers)
    if report:
        print(report)
        print(f"{name} differs from the last release's ABI. Undo the change, or give the library a new number, or, if\n"
              "docs/reference/abi.md permits it (a figure at the end of tarn_stats), store the ABI again with --write.")
        return 1
    print(f"{name} keeps the ABI of the last release")
    return 0


if __name__ == "__main__":
    sys.exit(main())
