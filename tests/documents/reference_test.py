#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the reference pages of options and of commands against the installed tarn, in both directions: what a page names
must exist, and what exists must be on the page. Usage: reference_test.py --prefix PREFIX"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OPTIONS = ROOT / "docs/reference/options.md"
COMMANDS = ROOT / "docs/reference/commands.md"
tarn = None


def output_of(*words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TARN_")}
    environment["COLUMNS"] = "80"
    return subprocess.run([tarn, *words], capture_output=True, text=True, check=True, env=environment).stdout


def section_of(text, heading):
    """The text below `## heading`, where the heading may name several commands."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        if heading in re.split(r",\s*", title):
            return body
    return None


def long_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


class Options(unittest.TestCase):
    def test_the_table_is_what_the_library_has(self):
        listed = json.loads(output_of("doctor", "--options", "--json"))
        listed = listed["options"] if isinstance(listed, dict) else listed
        table = re.findall(r"^\| `(\w+)` \| `(TARN_\w+)` \| `([^`]*)` \|", OPTIONS.read_text(), re.M)
        self.assertEqual({row[0]: (row[1], row[2]) for row in table},
                         {option["name"]: (option["variable"], option["default"]) for option in listed})

    def test_each_option_has_a_section(self):
        text = OPTIONS.read_text()
        for name in re.findall(r"^\| `(\w+)` \| `TARN_", text, re.M):
            self.assertIsNotNone(section_of(text, name), f"{OPTIONS}: no section '## {name}'")


class Commands(unittest.TestCase):
    def setUp(self):
        self.text = COMMANDS.read_text()
        self.verbs = [verb for verb in re.findall(r"^  (?:tarn )?([a-z]+)\b", output_of("help"), re.M)
                      if self.has_help(verb)]
        self.assertGreater(len(self.verbs), 15, "tarn help lists fewer commands than it should")

    @staticmethod
    def has_help(verb):
        return verb != "help" and subprocess.run([tarn, verb, "--help"], capture_output=True).returncode == 0

    def test_each_command_has_a_section(self):
        missing = [verb for verb in self.verbs if section_of(self.text, f"tarn {verb}") is None]
        self.assertEqual(missing, [], f"{COMMANDS} has no section for these")

    def test_each_option_of_a_command_is_in_its_section(self):
        missing = []
        for verb in self.verbs:
            known = long_options(section_of(self.text, f"tarn {verb}") or "")
            missing += [f"tarn {verb} {option}" for option in sorted(self.options_of(verb) - known)]
        self.assertEqual(missing, [], f"{COMMANDS} does not explain these")

    def test_each_option_on_the_page_exists(self):
        wrong = []
        for verb in self.verbs:
            body = section_of(self.text, f"tarn {verb}") or ""
            first_column = " ".join(re.findall(r"^\| (`-[^|]*)\|", body, re.M))
            # One section may be of several commands: each option must be one of theirs.
            title = next(line for line in self.text.splitlines() if re.match(rf"## .*\btarn {verb}\b", line))
            existing = set().union(*(self.options_of(each) for each in re.findall(r"tarn (\w+)", title)))
            wrong += [f"tarn {verb} {option}" for option in sorted(long_options(first_column) - existing)]
        self.assertEqual(wrong, [], f"{COMMANDS} explains these, which do not exist")

    @staticmethod
    def options_of(verb):
        """Those that stand at the beginning of a line of the help, behind a short form or not."""
        lines = re.findall(r"^\s+(?:-\w,\s*)?(--[a-z][a-z-]+)", output_of(verb, "--help"), re.M)
        return set(lines) - {"--help", "--version", "--color"}


if __name__ == "__main__":
    if "--prefix" not in sys.argv:
        sys.exit(__doc__)
    place = sys.argv.index("--prefix")
    tarn = os.path.join(sys.argv[place + 1], "bin/tarn")
    del sys.argv[place:place + 2]
    if not os.path.exists(tarn):
        print(f"skipped: there is no {tarn}")
        sys.exit(77)
    unittest.main()
