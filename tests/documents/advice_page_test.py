#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/explanation/advice.md says how advice comes about. Each figure that it gives is the constant of this name in the sources,
each kind and grade of advice has its row, and nothing is claimed of a method that the sources do not have.

    advice_page_test.py SOURCE_FOLDER
"""
import os
import re
import sys
import unittest

FOLDER = ""

# The page's words, and the constants that they state.
CLAIMS = [
    ("≥ 1,000 refaulted pages", "advice_memory.cpp", {"fewest_refaults": 1000}),
    ("≥ a tenth of all pages", "advice_memory.cpp", {"spare_part": 0.1}),
    ("≥ 2 huge pages on average", "advice_memory.cpp", {"huge_pages_a_block": 2}),
    ("≥ 90 % of the bytes in blocks of ≥ 64 KiB; half of the pages refaulted", "advice_memory.cpp",
     {"large_part": 0.9, "large_block": 65536, "again_part": 0.5}),
    ("≥ 16 MiB checked for untouched pages, ≥ half untouched, ≥ 32 MiB and a quarter of the peak", "advice_memory.cpp",
     {"least_checked_bytes": 16 << 20, "untouched_part": 0.5, "least_untouched_bytes": 32 << 20, "part_of_peak": 0.25}),
    ("≥ 10,000 allocations, ≥ 80 % of one exact size ≤ 8 KiB; not an array of a container; half of them freed", "advice_calls.cpp",
     {"fewest_allocations": 10000, "one_size": 0.8, "largest_pooled": 8192, "freed_part": 0.5}),
    ("≥ 5 % freed by another thread", "advice_calls.cpp", {"foreign": 0.05}),
    ("≥ 10,000 frees, ≥ 80 % in batches", "advice_calls.cpp", {"fewest_allocations": 10000, "in_batches": 0.8}),
    ("≥ 2 allocating places, ≥ 1,000 objects, ≤ 5 % of the bytes live", "advice_calls.cpp",
     {"fewest_places": 2, "fewest_objects": 1000, "part_alive": 0.05}),
    ("an array of a container; ≥ 10,000 allocations, ≤ 5 % of the bytes live at once", "advice_calls.cpp",
     {"fewest_allocations": 10000, "part_alive": 0.05}),
    ("reallocs that grow, ≥ 30 % of the allocations", "advice_calls.cpp", {"growing_part": 0.3}),
    ("≥ 4 MiB live in blocks of ≤ 1 KiB on average, ≥ 30 % of CPU time", "advice_placement.cpp",
     {"least_live_bytes": 4 << 20, "largest_block": 1024, "least_own_part": 0.3}),
    ("up to four times its cost", "advise.cpp", {"setting_weight": 4}),
    ("memory costs 5 % of the program's CPU time or more", "advise.cpp", {"much_cost": 0.05}),
    ("less than 2 % of the program's CPU time", "advice.hpp", {"least_share": 0.02}),
    ("upper bound is 1 % below the unchanged program", "../model/proof.hpp", {"least_proven_change": 0.01}),
    ("it saves less than 3 %", "../model/proof.hpp", {"worthwhile_change": 0.03}),
]


def text(*names):
    with open(os.path.join(FOLDER, *names), encoding="utf-8") as file:
        return file.read()


def number(word):
    return float.fromhex(word) if word.startswith("0x") else float(word)


class page(unittest.TestCase):
    def setUp(self):
        self.page = " ".join(text("docs", "explanation", "advice.md").split())

    def test_each_figure_is_the_constant_of_the_sources(self):
        for words, file, constants in CLAIMS:
            self.assertIn(words, self.page)
            source = text("profiler", "analyze", file)
            for name, value in constants.items():
                found = re.search(rf"\b{name} = ([0-9a-fx.p]+);", source)
                self.assertIsNotNone(found, f"{file} has no {name}")
                self.assertEqual(number(found.group(1)), value, name)

    def test_each_kind_has_a_row(self):
        kinds = re.findall(r'\{advice_kind::\w+, "([a-z ]+)", [^,]+, ([0-9.]+)\}', text("profiler", "analyze", "advice_kinds.hpp"))
        self.assertGreater(len(kinds), 10)
        rows = set(re.findall(r"^\| ([a-z ]+?)(?::[^|]*)? \| ", text("docs", "explanation", "advice.md").split("## The rules")[1]
                              .split("\n- ")[0], re.MULTILINE)) - {"advice"}
        self.assertEqual(rows, {name for name, _ in kinds} - {"leave it"})
        weights = dict(kinds)
        self.assertIn(f"the costs count times {weights['tunable']} for a tunable, {weights['huge pages']} for huge pages, "
                      f"{weights['another malloc']} for another malloc", self.page)

    def test_each_grade_is_explained(self):
        names = re.search(r'names\[\] = \{"counted", ([^}]+)\}', text("profiler", "analyze", "advise.cpp"))
        self.assertIsNotNone(names)
        for name in re.findall(r'"([a-z ]+)"', names.group(1)) + ["counted"]:
            self.assertRegex(self.page, rf"\| [a-z, ]*\b{name}\b[a-z, ]* \|")


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main(verbosity=1)
