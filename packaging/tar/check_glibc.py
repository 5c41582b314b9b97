#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what programs and shared libraries need of the system: no glibc newer than FLOOR, and no library but glibc's own
and libgcc_s, which every system with glibc has. Prints a line for each file.

Usage: check_glibc.py FLOOR FOLDER
"""

import pathlib
import re
import subprocess
import sys

ALLOWED = re.compile(r"(libc|libm|libpthread|libdl|libgcc_s|ld-linux.*)\.so\.\d+|libtarn\.so\.1")


def readelf(option, file):
    return subprocess.run(["readelf", "-W", option, file], check=True, capture_output=True, text=True).stdout


def is_loaded(file):
    """Whether it is a program or a shared library."""
    with file.open("rb") as opened:
        if opened.read(4) != b"\x7fELF":
            return False
    return re.search(r"Type:\s+(EXEC|DYN)", readelf("-h", file)) is not None


def number(version):
    return tuple(int(part) for part in version.split("."))


def main():
    floor, folder = number(sys.argv[1]), pathlib.Path(sys.argv[2])
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink() and is_loaded(file)]
    if not files:
        sys.exit(f"{folder} has no program and no shared library")
    wrong = 0
    for file in files:
        needs = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", file))
        versions = {number(text) for text in re.findall(r"Name: GLIBC_([0-9.]+)", readelf("-V", file))}
        newest = max(versions, default=(0,))
        strange = [name for name in needs if not ALLOWED.fullmatch(name)]
        problem = ("  TOO NEW" if newest > floor else "") + (f"  NEEDS {' '.join(strange)}" if strange else "")
        wrong += bool(problem)
        print(f"{file.relative_to(folder)}: needs glibc {'.'.join(map(str, newest))}{problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
