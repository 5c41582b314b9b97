# SPDX-License-Identifier: MIT
"""End-to-end: `tarn diff` over several recordings of one command: noise is not reported, a real difference is."""
import glob
import json
import os

from harness import settings
from profile_test import END, ProfileBase


class DiffBase(ProfileBase):
    def tarn(self, *words, **more):
        return self.execute(settings.tarn, *words, **more)

    def record(self, name, runs, *words, mode="full", program=None, status=END, options=(), **more):
        self.tarn("profile", "--mode", mode, "-r", str(runs), "-o", name + ".prof", *options, "--",
                  program or settings.profile_target, *words, code=status, **more)
        return sorted(glob.glob(self.path(name + "-*.prof")))

    def compare(self, before, after, *options, status=0):
        return json.loads(self.tarn("diff", *options, "--json", *before, "--", *after, code=status).stdout)


class diff(DiffBase):
    def test_same_command_is_silent_and_a_tenth_more_is_found(self):
        before = self.record("before", 3, "churn", "20000")
        self.assertEqual([os.path.basename(path) for path in before],
                         ["before-1.prof", "before-2.prof", "before-3.prof"])
        same, more = self.record("same", 3, "churn", "20000"), self.record("more", 3, "churn", "22000")
        limits = ("--fail-if", "allocations>+1%", "--fail-if", "site.bytes>+1%")
        silent = self.compare(before, same, *limits)
        self.assertEqual((silent["recordings"], silent["exceeded"]), ({"before": 3, "after": 3}, []))
        found = self.compare(before, more, *limits, status=1)
        self.assertEqual(len(found["exceeded"]), 2, found["exceeded"])
        change = found["totals"]["allocations"]
        self.assertTrue(change["significant"])
        self.assertEqual((change["low"], change["change"], change["high"]), (2000, 2000, 2000))
        cost = found["totals"]["cost"]
        self.assertLess(cost["low"], cost["change"])
        self.assertAlmostEqual(cost["high"] - cost["change"], cost["change"] - cost["low"], delta=1)

    def test_sampled_recordings_have_one_price_of_a_call(self):
        before = self.record("before", 2, "churn", "100000", mode="sample")
        after = self.record("after", 2, "churn", "200000", mode="sample")
        price = self.compare(before, after)["call_price"]
        self.assertGreater(price["before"], 0)
        self.assertIsInstance(price["is_common"], bool)
        shown = self.tarn("diff", *before, "--", *after)
        self.assertRegex(shown.stdout, r"\nprice of a call: [-+][0-9.]+ % ± [>0-9.]+ % \(in 99 of 100 cases\); "
                         "(cost and malloc take it as the same on both sides|each side has its own)")
        self.assertIsNone(self.compare(before[:1], after[:1])["call_price"])
        self.assertNotIn("price of a call", self.tarn("diff", before[0], after[0]).stdout)

    def test_interval_is_shown(self):
        files = self.record("x", 2, "churn", "5000")
        result = self.tarn("diff", files[0], files[1], code=0)
        self.assertIn("1 recording before, 1 recording after", result.stdout)
        self.assertRegex(result.stdout, r"cost +[^\n]+ ± +[0-9.]+ %")
        self.assertRegex(result.stdout, r"allocations +[^\n]+ exact")
        self.assertIn("To record several: tarn profile -r 5", result.stderr)
        self.assertRegex(result.stdout, r"\ncost: [-+][0-9.]+ % ± [0-9.]+ %, not decided; a change of 5 % needs "
                         r"(about [0-9]+ recordings a side \(tarn profile -r [0-9]+\)|more than 1000 )")
        self.assertIn("find the change in 9 of 10 cases", result.stdout)
        self.assertNotIn("allocations:", result.stdout)  # they are exact
        totals = self.compare(files[:1], files[1:])
        self.assertEqual(totals["needed_for"], {"change": 0.05, "found": 0.9})
        self.assertGreater(totals["totals"]["cost"]["recordings_needed"] or 1001, 10)
        self.assertEqual(totals["totals"]["allocations"]["recordings_needed"], 2)

    def test_one_file_or_an_empty_side_is_refused(self):
        one, = self.record("x", 2, "churn", "5000")[:1]
        for words in ((one,), (one, one, one), (one, "--"), ("--", one)):
            result = self.tarn("diff", *words, code=2)
            self.assertIn("tarn diff BEFORE AFTER", result.stderr)

    def test_a_recording_counts_once_on_its_side(self):
        first, second = self.record("x", 2, "churn", "5000")
        result = self.tarn("diff", first, f"{self.folder}/./{os.path.basename(first)}", "--", second)
        self.assert_refused(result, 2, "given twice")
        self.assertEqual(self.tarn("diff", first, first).returncode, 0)

    def test_each_run_reads_the_input_from_its_start_and_another_exit_status_ends_the_series(self):
        with open(self.path("input"), "w", encoding="utf-8") as file:
            file.write("line\n" * 3)
        with open(self.path("input"), encoding="utf-8") as file:
            self.record("wc", 3, "-c", 'test "$(wc -l)" -eq 3', program="sh", status=0, stdin=file)
        self.assertEqual(len(glob.glob(self.folder + "/wc-?.prof")), 3)
        self.record("once", 3, "-c", "mkdir taken || exit 7", program="sh", status=7)
        self.assertEqual(len(glob.glob(self.folder + "/once-?.prof")), 2)

    def test_programs_that_cannot_be_repeated(self):
        for words, phrase in ((("-r", "3"), "need a name"), (("-r", "3", "-o", "x.prof", "--paused"), "cannot be")):
            result = self.tarn("profile", *words, "--", "true", code=125)
            self.assertIn(phrase, result.stderr)
        result = self.tarn("profile", "-r", "3", "-o", "x.prof", "--", "cat", input="text", code=125)
        self.assertIn("standard input is a pipe", result.stderr)


class diff_of_times(DiffBase):
    """Compares times, which needs a machine that is not overloaded. Takes minutes."""

    def allocate(self, name, count):
        return self.record(name, 4, "churn", str(count), mode="sample")

    def test_twenty_pairs_of_one_command_and_ten_with_a_tenth_more(self):
        loud = sum(self.tarn("diff", "--fail-if", "cost>+0%", *self.allocate(f"a{pair}", 400000), "--",
                             *self.allocate(f"b{pair}", 400000)).returncode for pair in range(20))
        self.assertLessEqual(loud, 1)
        found = sum(self.tarn("diff", "--fail-if", "cost>+0%", *self.allocate(f"c{pair}", 400000), "--",
                              *self.allocate(f"d{pair}", 440000)).returncode for pair in range(10))
        self.assertGreaterEqual(found, 9)
