#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands of a page of the documents, as a reader would, and compares what they print with the page.

Usage: run_page.py --prefix PREFIX [--write] PAGE

The page's commands run one after the other in one shell, in an empty folder, with the tarn that is installed in PREFIX
first in PATH. What a page may contain:

    ```cpp title="orders.cpp"       the block is written to this file. For a tutorial it must be the same as the file
                                    of that name in examples/tutorials/NAME-OF-THE-PAGE/
    ```console                      lines that begin with "$ " are commands, which a backslash at the end continues;
                                    the lines below a command are what it prints
    <!-- not run: REASON -->        the next console block is not run
    <!-- needs: PROGRAM… -->        neither, where one of these programs is missing; the page then counts as skipped
                                    in part, which the last line of the output says
    <!-- page test: long -->        anywhere: CMake gives the page's test the label "long"
    <!-- page needs: doctor -->     anywhere: the page is skipped where `tarn doctor` says that profiles are incomplete
    <!-- check: COMMAND -->         a command that readers do not see; it must succeed

Numbers, with their units, are not compared (but for `echo $?`), and blanks count as one. A line "…" stands for any lines, and … within a
line for any text. Lines of progress and of the machine's load (PASSING below) are not compared. A command must succeed,
unless `echo $?` follows it. /usr/local in a command is PREFIX.

--write replaces the outputs in the page by what the commands print now. Outputs that have a … between other text stay.
Exit status: 0 the page is right; 1 it is not; 77 nothing of it could be run.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 600
MARK = "\x01tarn-page"
FENCE = re.compile(r"^( *)```(\S*)(?: title=\"([^\"]+)\")?\s*$")
COMMENT = re.compile(r"^ *<!-- (not run|needs|check): (.*) -->$")
# Lines that depend on the machine and its load, not on the program and the command. They are not compared.
PASSING = re.compile(r"^tarn: (?:round \d+(?:/\d+|, at most \d+ s left): "  # progress: where standard error is no terminal, some such lines remain
                     r"|the price of a page fault was .* in one recording and .* in another )")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?:\s?(?:[KMGT]iB|ns|us|µs|ms|min|[smhBkKMGx%])(?![\w]))?")


@dataclass
class Command:
    text: str
    line: int                                      # of the page, from 1
    expected: list = field(default_factory=list)   # None for a command that readers do not see
    end: int = 0                                   # the page's line behind the expected output
    printed: list = field(default_factory=list)
    status: int = -1


class PageError(Exception):
    pass


def commands_of(lines, first, indent):
    """The commands of a console block, whose content begins at the line with index `first`."""
    commands = []
    number = first
    while number < len(lines) and lines[number].strip() != "```":
        line = lines[number][indent:]
        number += 1
        if line.startswith("$ "):
            start, text = number, line[2:]
            while text.endswith("\\") or has_open_document(text):
                text += "\n" + lines[number][indent:].removeprefix("> ")
                number += 1
            commands.append(Command(text, start, end=number))
        elif not commands:
            raise PageError(f"line {number}: a console block begins with a command, '$ …'")
        else:
            commands[-1].expected.append(line)
            commands[-1].end = number
    return commands, number


def has_open_document(text):
    """Whether the command has a here-document whose end has not come yet."""
    word = re.search(r"<<-?'?(\w+)'?", text)
    return bool(word) and not re.search(rf"^{word[1]}$", text, re.M)


def parse(lines):
    """The page's files, commands in order, and why blocks are left out."""
    files, commands, left_out, pending = {}, [], [], {}
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if comment := COMMENT.match(line):
            if comment[1] == "check":
                commands.append(Command(comment[2], number, None))
            else:
                pending[comment[1]] = comment[2]
            continue
        fence = FENCE.match(line)
        if not fence:
            if line.strip():
                pending = {}
            continue
        indent, language, title = len(fence[1]), fence[2], fence[3]
        first = number
        if language == "console" and "not run" not in pending:
            found, number = commands_of(lines, number, indent)
            missing = [name for name in pending.get("needs", "").split() if not shutil.which(name)]
            if missing:
                left_out.append(f"line {first}: {', '.join(missing)} is missing")
            else:
                commands += found
        while number < len(lines) and lines[number].strip() != "```":
            number += 1
        if title:
            files[title] = "\n".join(text[indent:] for text in lines[first:number]) + "\n"
        number += 1
        pending = {}
    return files, commands, left_out


def check_programs(page, files):
    folder = ROOT / "examples/tutorials" / page.stem
    if page.parent.name != "tutorials":
        return
    kept = {path.name: path.read_text() for path in folder.iterdir()} if folder.is_dir() else {}
    for name in sorted(files.keys() | kept.keys()):
        if files.get(name) != kept.get(name):
            raise PageError(f"{name} in the page and in {folder.relative_to(ROOT)}/ differ, or one is missing")


def script_of(commands):
    """One shell for all commands, so that variables, the folder and $? are as a reader's. Marks go to the same stream."""
    parts = []
    for number, command in enumerate(commands):
        parts.append(f"printf '\\n%s\\n' '{MARK} {number}'; (exit $tarn_status)\n{command.text}\n"
                     f"tarn_status=$?; printf '\\n%s\\n' \"{MARK}-end $tarn_status\"\n")
    return "tarn_status=0\n" + "".join(parts)


def run(commands, folder, prefix):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("TARN_", "LD_", "MALLOC_", "GLIBC_TUNABLES", "CMAKE_"))}
    # Where go keeps what it has built: it builds the tool pprof at its first use.
    environment.setdefault("GOCACHE", str(Path.home() / ".cache/go-build"))
    environment.update(HOME=str(folder), LC_ALL="C.UTF-8", NO_COLOR="1", TERM="dumb", PYTHONDONTWRITEBYTECODE="1",
                       PATH=f"{prefix}/bin:{os.environ['PATH']}", CMAKE_PREFIX_PATH=str(prefix),
                       PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig", LD_LIBRARY_PATH=f"{prefix}/lib")
    script = script_of(commands).replace("/usr/local", str(prefix))
    with open(folder / ".output", "w+b") as output:
        process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            pass
        try:  # also what the page has left in the background
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    for part in text.split(f"\n{MARK} ")[1:]:
        head, _, rest = part.partition("\n")
        printed, ended, status = rest.partition(f"\n{MARK}-end ")
        command = commands[int(head)]
        printed = printed.replace(str(prefix), "/usr/local").replace(str(folder), "/home/me")
        command.printed = [line.split("\r")[-1].rstrip() for line in printed.split("\n") if not PASSING.match(line)]
        while command.printed and not command.printed[-1]:
            command.printed.pop()
        if ended:
            command.status = int(status.split()[0])


def normal(line):
    """The line as it is compared: numbers with their units become #, intervals and margins vanish, blanks become one."""
    line = NUMBER.sub("#", line)
    line = re.sub(r"±\s?#", "", line)
    return " ".join(line.split())


def same_line(expected, printed):
    pattern = ".*".join(re.escape(part) for part in normal(expected).split("…"))
    return re.fullmatch(pattern, normal(printed)) is not None


def same_output(expected, printed, same=same_line):
    """Whether the lines match; a line … stands for any number of lines."""
    if not expected:
        return not printed
    if expected[0].strip() == "…":
        return any(same_output(expected[1:], printed[skip:], same) for skip in range(len(printed) + 1))
    return bool(printed) and same(expected[0], printed[0]) and same_output(expected[1:], printed[1:], same)


def as_expected(command):
    if command.expected is None:
        return True
    expected, printed = ([line for line in lines if line.strip()] for lines in (command.expected, command.printed))
    return expected == printed if command.text == "echo $?" else same_output(expected, printed)


def problems_of(commands):
    for command, following in zip(commands, [*commands[1:], None]):
        if command.status < 0:
            yield command, "did not end"
            return
        judged = following is not None and re.search(r"\$\?|\bPIPESTATUS\b", following.text)
        if command.status != 0 and not judged:
            yield command, f"ended with status {command.status}"
        elif not as_expected(command):
            yield command, "printed something else"


def show(command, what):
    print(f"line {command.line}: {command.text}\n  {what}. It printed:")
    for line in command.printed:
        print(f"    {line}")
    if command.expected:
        print("  where the page has:")
        for line in command.expected:
            print(f"    {line}")


def rewrite(page, lines, commands):
    """Replaces outputs from the last to the first, so that line numbers stay right."""
    for command in reversed(commands):
        if command.expected is None or (command.expected != ["…"] and any("…" in line for line in command.expected)):
            continue
        indent = " " * (len(lines[command.line - 1]) - len(lines[command.line - 1].lstrip()))
        lines[command.end - len(command.expected):command.end] = [(indent + line).rstrip() for line in command.printed]
    page.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder to run in, which stays")
    parser.add_argument("page", type=Path)
    options = parser.parse_args()
    page, prefix = options.page.resolve(), options.prefix.resolve()
    lines = page.read_text().split("\n")
    try:
        files, commands, left_out = parse(lines)
        check_programs(page, files)
    except PageError as error:
        print(f"{page}: {error}")
        return 1
    if not (prefix / "bin/tarn").exists():
        print(f"skipped: there is no tarn in {prefix}")
        return 77
    if any(line == "<!-- page needs: doctor -->" for line in lines):
        doctor = subprocess.run([prefix / "bin/tarn", "doctor"], capture_output=True, text=True)
        if doctor.returncode != 0:
            print(f"skipped: a profile is not complete on this machine; tarn doctor says:\n{doctor.stdout}{doctor.stderr}")
            return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        run(commands, folder, prefix)
    if options.write:
        rewrite(page, lines, commands)
    problems = list(problems_of(commands))
    for command, what in problems:
        show(command, what)
    for reason in left_out:
        print(f"not run: {reason}")
    print(f"{page.name}: {len(commands)} commands run, {len(problems)} of them not as the page says, "
          f"{len(left_out)} blocks left out")
    if problems:
        return 1
    return 77 if left_out and not commands else 0


if __name__ == "__main__":
    sys.exit(main())
