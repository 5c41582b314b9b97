#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Has the compiler of a configured build folder read every source, with all warnings as errors, and makes nothing.

Usage: compile_with.py BUILD_FOLDER

BUILD_FOLDER was configured with the compiler in question, e.g. CXX=clang++-16 cmake --preset release -B FOLDER; its
compile_commands.json says what is compiled and how. Prints the messages of what fails; status 1 if anything does.
"""

import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path


def arguments_of(entry):
    """The compiler's command, without its output."""
    words = iter(shlex.split(entry["command"]))
    kept = []
    for word in words:
        if word == "-o":
            next(words)
        elif word != "-c":
            kept.append(word)
    return (*kept, "-fsyntax-only", "-Werror")


def compile_one(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def main(words):
    if len(words) != 2:
        sys.exit(__doc__)
    build = Path(words[1]).resolve()
    entries = json.loads((build / "compile_commands.json").read_text())
    # Two libraries that are made of the same objects with the same flags are one command.
    commands = sorted({(arguments_of(entry), entry["directory"]) for entry in entries},
                      key=lambda each: "unity" not in each[0][-3])  # the longest first
    failed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (status, output) in enumerate(pool.map(compile_one, *zip(*commands)), 1):
            if status != 0:
                failed.append(output)
            print(f"[{number}/{len(commands)}]", end="\r" if sys.stdout.isatty() else "\n", flush=True)
    print(*failed, sep="\n")  # together, after the progress
    print(f"{len(commands)} sources, {len(failed)} with errors or warnings")
    return 1 if failed else 0


sys.exit(main(sys.argv))
