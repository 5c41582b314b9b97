# SPDX-License-Identifier: MIT
"""The benchmark of advice: its two halves, how a program's advice is judged, what intervals are made from, and its file."""

import os
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401  (sets the path)
from advice import fitting, inputs, judgement, programs, results


def way(saved: float, outcome: str = "less") -> dict:
    return {"saved": saved, "low": saved - 0.01, "high": saved + 0.01, "outcome": outcome}


def result(told: list, measured: dict, **more) -> dict:
    return {"program": "p", "half": "test", "told": told, "estimated": [], "measured": measured, "placement": False, "own": 0.8,
            "first": ["another malloc", ""], "first_as_user": ["another malloc", ""], **more}


def piece(low: float, saving: float, high: float, kind: str = "another malloc", **more) -> dict:
    name = {"another malloc": "tarn", "tunable": "keep-memory"}[kind]
    return {"kind": kind, "grade": "replayed", "way": name, "raw": saving, "raw_fault": 0, "saving": saving, "low": low, "high": high,
            **more}


class HalvesTest(unittest.TestCase):
    def test_no_program_is_in_both(self):
        packages = [{each.package for each in half()} for half in (programs.fit_programs, programs.test_programs)]
        self.assertGreaterEqual(len(programs.fit_programs()), 10)
        self.assertEqual(len(programs.test_programs()), 20)
        self.assertEqual(len(packages[1]), 20, "each of another package")
        self.assertFalse(packages[0] & packages[1])

    def test_names_and_inputs_are_there(self):
        names = [each.name for _, each in programs.all_programs()]
        self.assertEqual(len(names), len(set(names)))
        known = set(inputs.TEXTS) | {"repository"}
        used = {word[1:] for _, each in programs.all_programs() for word in each.words if word.startswith("@")}
        self.assertEqual(used - known, set())
        self.assertEqual(known - used, set())

    def test_dev_installs_all_of_them(self):
        needs = (Path(__file__).resolve().parents[2] / "tools" / "dev" / "needs.sh").read_text().split("wants_advice='")[1].split("'")[0]
        installed = {line.split()[1] for line in needs.splitlines() if line}
        self.assertEqual({each.package for _, each in programs.all_programs()} - installed, {"python3"})

    def test_inputs_are_the_same_each_time(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            texts = [Path(inputs.input_file(folder, "graph.dot")).read_text() for folder in (one, other)]
        self.assertEqual(*texts)
        self.assertTrue(texts[0].startswith("digraph"))


class JudgementTest(unittest.TestCase):
    def test_inside_and_width(self):
        row = judgement.judge(result([piece(0.05, 0.1, 0.2)], {"tarn": way(0.06)}))
        self.assertEqual((row["inside"], row["direction"], row["leave"]), ("yes", "right", "right"))
        self.assertAlmostEqual(row["width"], 4)
        self.assertEqual(judgement.judge(result([piece(0.05, 0.1, 0.2)], {"tarn": way(0.22)}))["inside"], "noise")
        self.assertEqual(judgement.judge(result([piece(0.05, 0.1, 0.2)], {"tarn": way(0.3)}))["inside"], "NO")

    def test_what_costs_time_is_a_wrong_direction(self):
        row = judgement.judge(result([piece(0.05, 0.1, 0.2)], {"tarn": way(-0.05, "more")}))
        self.assertEqual((row["direction"], row["inside"], row["leave"]), ("WRONG", "NO", "WRONG"))

    def test_the_first_that_needs_no_edit_is_judged(self):
        told = [piece(0, 0.004, 0.01, "tunable"), piece(0.02, 0.03, 0.04)]
        self.assertEqual(judgement.judge(result(told, {"tarn": way(0.03), "keep-memory": way(0)}))["advice"], "another malloc")

    def test_leaving_what_gains(self):
        nothing = {"first": None, "first_as_user": None}
        self.assertEqual(judgement.judge(result([], {"tarn": way(0.01)}, **nothing))["leave"], "right")
        self.assertEqual(judgement.judge(result([], {"tarn": way(0.05)}, **nothing))["leave"], "missed")
        self.assertEqual(judgement.judge(result([], {"tarn": way(0.15)}, **nothing))["leave"], "WRONG")
        self.assertEqual(judgement.judge(result([], {"tarn": way(0.15)}, placement=True, **nothing))["leave"], "right")

    def test_sums(self):
        rows = [judgement.judge(result([piece(0.05, 0.1, 0.2)], {"tarn": way(0.06)})),
                judgement.judge(result([], {"tarn": way(0.15)}, first=None))]
        sums = judgement.summary(rows)
        self.assertEqual((sums["inside"], sums["advised"], sums["leave_wrong"], sums["same_as_user"]), (1, 1, 1, 1))


class FittingTest(unittest.TestCase):
    def test_faults_are_no_part_of_what_is_fitted_for_another_malloc(self):
        measured = [result([piece(0, 0.3, 1, raw=0.3, raw_fault=0.2)], {"tarn": way(0.2 + 0.1 * factor)}) for factor in (1, 2, 3)]
        low, middle, high, count, own = fitting.fit(measured)["allocator", "replayed", "none"]
        self.assertAlmostEqual(middle, 2)
        self.assertLess(low, 1.2)
        self.assertGreater(high, 2.8)
        self.assertEqual((count, own), (3, 0))

    def test_where_placement_may_matter_the_own_time_counts(self):
        compact = [result([piece(0, 0.1, 1)], {"tarn": way(0.1)}) for _ in range(3)]
        open_ones = [result([piece(0, 0.1, 1)], {"tarn": way(0.5)}, placement=True) for _ in range(3)]
        fitted = fitting.fit(compact + open_ones)
        self.assertAlmostEqual(fitted["allocator", "replayed", "none"][2], 1.2)
        self.assertEqual(fitted["allocator", "replayed", "none"][4], 0)
        self.assertEqual(fitted["allocator", "replayed", "possible"][:3], fitted["allocator", "replayed", "none"][:3])
        self.assertAlmostEqual(fitted["allocator", "replayed", "possible"][4], 1.2 * (0.5 - 1.2 * 0.1) / 0.8)

    def test_too_few_programs_leave_the_table_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.inc")
            Path(path).write_text("// text\n")
            fitting.write_table([result([piece(0, 0.1, 1)], {"tarn": way(0.1)})], path)
            self.assertEqual(Path(path).read_text(), "// text\n")


class ResultsTest(unittest.TestCase):
    def test_an_interrupted_run_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.jsonl")
            self.assertEqual(results.load(path), {})
            results.store(path, {"p": result([], {}), "q": {**result([], {}), "program": "q"}})
            with open(path, "a", encoding="utf-8") as file:
                file.write('{"program": "r", "hal')
            self.assertEqual(sorted(results.load(path)), ["p", "q"])


if __name__ == "__main__":
    unittest.main()
