#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs clang-tidy over src/, cli/ and profiler/; a file that was clean and has not changed since is not read again.

Usage: tidy.py CLANG_TIDY BUILD_FOLDER
BUILD_FOLDER holds compile_commands.json. What was clean is kept in BUILD_FOLDER/tidy/, one empty file named by
the hash of all that decides the outcome: the source, the project's headers it includes, .clang-tidy, the
compiler's command and clang-tidy's version.
"""

import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from project_includes import ROOT, closure_of

FOLDERS = [ROOT / "src", ROOT / "cli", ROOT / "profiler"]
SECONDS_PER_FILE = 300


def sources_of(build):
    """Source file -> its compiler command, for the files to check."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    commands = {Path(entry["file"]).resolve(): entry["command"] for entry in entries}
    return {path: command for path, command in sorted(commands.items())
            if any(path.is_relative_to(folder) for folder in FOLDERS) and path.is_file()}


def fingerprint(source, command, version):
    digest = hashlib.sha256(f"{version}\0{command}\0".encode())
    rules = [folder / ".clang-tidy" for folder in source.parents if folder.is_relative_to(ROOT)]
    for path in [*filter(Path.is_file, rules), *sorted(closure_of(source))]:
        digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def run_tidy(tidy, build, source):
    # GCC's command line holds options that clang does not know.
    try:
        result = subprocess.run(
            [tidy, "-p", str(build), "--quiet", "--extra-arg=-Wno-unknown-warning-option",
             "--extra-arg=-Wno-ignored-optimization-argument", str(source)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=SECONDS_PER_FILE)
    except subprocess.TimeoutExpired:
        return 1, f"clang-tidy gave no answer in {SECONDS_PER_FILE} s; --enable-check-profile shows which check is slow"
    # Standard error counts the warnings that were held back; it matters only where nothing else is said.
    return result.returncode, result.stdout.strip() or result.stderr.strip()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    tidy, build = sys.argv[1], Path(sys.argv[2]).resolve()
    version = subprocess.run([tidy, "--version"], capture_output=True, text=True, check=True).stdout
    clean = build / "tidy"
    clean.mkdir(exist_ok=True)
    marks = {source: clean / fingerprint(source, command, version)
             for source, command in sources_of(build).items()}
    pending = [source for source, mark in marks.items() if not mark.exists()]

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(run_tidy, tidy, build, source): source for source in pending}
        for done, run in enumerate(concurrent.futures.as_completed(runs), 1):
            status, output = run.result()
            print(f"[{done}/{len(pending)}] {runs[run].relative_to(ROOT)}", flush=True)
            if status == 0:
                marks[runs[run]].touch()
            else:
                failed += 1
                print(output, flush=True)
    for stale in set(clean.iterdir()) - set(marks.values()):
        stale.unlink()
    print(f"clang-tidy: {len(marks)} files, {len(pending)} read, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
