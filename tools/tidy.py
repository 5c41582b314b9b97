#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs clang-tidy on src/, cli/ and profiler/, except on files that were clean before and have not changed.

Usage: tidy.py CLANG_TIDY BUILD_FOLDER [COMMIT]
With COMMIT it checks only what differs from that commit in more than comments: each changed source, and for each
changed header one source that includes it; or everything if a .clang-tidy changed. BUILD_FOLDER must have
compile_commands.json. Each clean batch leaves an empty file in BUILD_FOLDER/tidy/, whose name is the hash of all that
decides the outcome: the sources, the project's headers that they include, .clang-tidy, the compiler's command and
clang-tidy's version.

Most of clang-tidy's time is for reading every header again for every file. Therefore several files of a folder are
checked as one source that includes them; their names do not clash, because the presets for users also compile them
together. The engine's files are checked one by one, because the static analyzer enters only the functions of the file
that it is given.
"""

import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from project_includes import ROOT, closure_of

ALONE = [ROOT / "src"]
TOGETHER = [ROOT / "cli", ROOT / "profiler"]
FILES_PER_BATCH = 8
SECONDS_PER_BATCH = 600
# A third of the static analyzer's default limit for one function; it halves the analyzer's time.
ANALYZER_NODES = 75000


@dataclass(frozen=True)
class Batch:
    """Sources that are checked together, with the compiler's arguments for them."""
    sources: tuple
    arguments: tuple

    def __str__(self):
        first = str(self.sources[0].relative_to(ROOT))
        return first if len(self.sources) == 1 else f"{first} and {len(self.sources) - 1} more"

    def fingerprint(self, version):
        digest = hashlib.sha256("\0".join((version, *self.arguments)).encode())
        folder = self.sources[0].parent
        rules = [each / ".clang-tidy" for each in (folder, *folder.parents) if each.is_relative_to(ROOT)]
        files = set().union(*map(closure_of, self.sources))
        for path in [*filter(Path.is_file, rules), *sorted(files)]:
            digest.update(str(path).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()


def arguments_of(entry):
    """The compiler's arguments without the compiler, the source and the output."""
    words = iter(shlex.split(entry["command"])[1:])
    kept = []
    for word in words:
        if word == "-o":
            next(words)
        elif word not in ("-c", entry["file"]):
            kept.append(word)
    return tuple(kept)


def code_of(text):
    """The words of a C++ file's text without comments, and its lines with NOLINT; None if the preprocessor fails."""
    command = ["c++", "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", "-"]
    try:
        code = subprocess.run(command, input=text, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return code.split(), [line for line in text.splitlines() if b"NOLINT" in line]


def differs_in_code(path, commit):
    """Whether a file differs from the commit in more than comments; True if that cannot be decided."""
    if path.suffix not in (".cpp", ".hpp"):
        return True
    name = f"{commit}:{path.relative_to(ROOT)}"
    before = subprocess.run(["git", "show", name], cwd=ROOT, capture_output=True, check=False)
    code = code_of(path.read_bytes())
    return before.returncode != 0 or code is None or code != code_of(before.stdout)


def changed_since(commit):
    """The project's files that differ from the commit in more than comments, untracked files included."""
    words = (["diff", "--name-only", "--diff-filter=d", commit], ["ls-files", "--others", "--exclude-standard"])
    lists = [subprocess.run(["git", *each], cwd=ROOT, capture_output=True, text=True, check=True).stdout for each in words]
    files = {ROOT / name for each in lists for name in each.splitlines()}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return {path for path, differs in zip(files, pool.map(lambda each: differs_in_code(each, commit), files)) if differs}


def sources_that_show(changed, sources):
    """Sources that together include all changed files; None: all sources must be checked."""
    if any(path.name == ".clang-tidy" for path in changed):
        return None
    closures = {source: closure_of(source) for source in sources}
    chosen = changed & set(sources)
    seen = set().union(*(closures[source] for source in chosen))
    for header in sorted(changed - seen):
        readers = [source for source in sources if header in closures[source]]
        if readers and header not in seen:
            # The source of the same name, or else the one that includes the least.
            reader = min(readers, key=lambda each: (each.stem != header.stem, len(closures[each])))
            chosen.add(reader)
            seen |= closures[reader]
    return chosen


def batches_of(build, only=None):
    """All sources, or those of `only`, in batches."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    arguments = {Path(entry["file"]).resolve(): arguments_of(entry) for entry in entries}
    sources = sorted(path for path in arguments if path.is_file() and (only is None or path in only))

    def inside(path, folders):
        return any(path.is_relative_to(folder) for folder in folders)

    batches = [Batch((path,), arguments[path]) for path in sources if inside(path, ALONE)]
    together = sorted((path.parent, arguments[path], path) for path in sources if inside(path, TOGETHER))
    for _, group in groupby(together, key=lambda each: each[:2]):
        members = list(group)
        for start in range(0, len(members), FILES_PER_BATCH):
            some = members[start:start + FILES_PER_BATCH]
            batches.append(Batch(tuple(path for *_, path in some), some[0][1]))
    return batches


def run_tidy(tidy, build, batch, name):
    options = ["--quiet", "--extra-arg=-Wthread-safety", "--extra-arg=-Wno-unknown-warning-option",
               "--extra-arg=-Wno-ignored-optimization-argument"]  # GCC's arguments that clang does not know
    for argument in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={ANALYZER_NODES}"):
        options.append(f"--extra-arg={argument}")
    source = batch.sources[0]
    if len(batch.sources) > 1:
        source = build / "tidy" / f"{name}.cpp"
        source.write_text("".join(f'#include "{path}"\n' for path in batch.sources), encoding="utf-8")
        options.append(f"--config-file={ROOT / '.clang-tidy'}")
    try:
        result = subprocess.run(
            [tidy, *options, str(source), "--", *batch.arguments], cwd=build,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=SECONDS_PER_BATCH)
    except subprocess.TimeoutExpired:
        return 1, f"clang-tidy gave no answer in {SECONDS_PER_BATCH} s; --enable-check-profile shows which check is slow"
    # Standard error has the number of suppressed warnings; it matters only if standard output is empty.
    return result.returncode, result.stdout.strip() or result.stderr.strip()


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    tidy, build = sys.argv[1], Path(sys.argv[2]).resolve()
    version = subprocess.run([tidy, "--version"], capture_output=True, text=True, check=True).stdout
    clean = build / "tidy"
    clean.mkdir(exist_ok=True)
    marks = {batch: clean / batch.fingerprint(version) for batch in batches_of(build)}
    kept = set(marks.values())
    if len(sys.argv) == 4:
        unknown = [source for batch, mark in marks.items() if not mark.exists() for source in batch.sources]
        shown = sources_that_show(changed_since(sys.argv[3]), unknown)
        marks = {batch: clean / batch.fingerprint(version) for batch in batches_of(build, shown)}
    # The largest batches first, so that a short one ends last.
    pending = sorted((batch for batch, mark in marks.items() if not mark.exists()),
                     key=lambda batch: -len(batch.sources))

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(run_tidy, tidy, build, batch, marks[batch].name): batch for batch in pending}
        for done, run in enumerate(concurrent.futures.as_completed(runs), 1):
            status, output = run.result()
            print(f"[{done}/{len(pending)}] {runs[run]}", flush=True)
            if status == 0:
                marks[runs[run]].touch()
            else:
                failed += 1
                print(output, flush=True)
    for stale in set(clean.iterdir()) - kept - set(marks.values()):
        stale.unlink()
    files = sum(len(batch.sources) for batch in marks)
    print(f"clang-tidy: {files} files in {len(marks)} batches, {len(pending)} read, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
