#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what a command prints on a terminal.

picture.py OUTPUT.svg [--columns 80] [--show 'TEXT TO SHOW'] -- COMMAND ARG...

Runs the command with a terminal of its own, which shows no progress lines at the end, and writes the screen as an SVG
without fonts or links of other hosts. Needs rich (pip install rich)."""

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

# rich's own format fetches a font from another host.
FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}" role="img">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
<rect width="{terminal_width}" height="{terminal_height}" rx="8" fill="#1c1e26"/>
<g transform="translate(8, 8)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def output_of(command: list[str], columns: int) -> str:
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.execvp(command[0], command)
    found = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the last process has closed the terminal
            break
        if not piece:
            break
        found += piece
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        sys.exit(f"{shlex.join(command)}: ends with {status}\n{found.decode(errors='replace')}")
    return found.decode(errors="replace")


def last_state(line: str) -> str:
    """What stands on the screen of a line that was written anew: each rewriting begins with CR."""
    pieces = re.split(r"\r|\x1b\[K", line.rstrip("\r"))
    return pieces[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--show", help="the command as the picture shows it")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    shown = "$ " + (options.show or shlex.join(options.command))
    lines = [shown] + [last_state(line) for line in output_of(options.command, options.columns).split("\n")]
    console = Console(record=True, width=options.columns, file=open(os.devnull, "w"), force_terminal=True, color_system="standard")
    console.print(Text.from_ansi("\n".join(lines).rstrip()), soft_wrap=True)
    options.svg.write_text(console.export_svg(title=shown, theme=MONOKAI, code_format=FORMAT, unique_id="t"))
    print(f"{options.svg}: {options.svg.stat().st_size // 1024} KiB, {len(lines)} lines")


if __name__ == "__main__":
    main()
