#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""End-to-end: `tarn report` turns a profile into a page. Usage: report_test.py TARN REPORT_SAMPLE

The page's behaviour is tested in a browser by tests/profiler/report/page_test.mjs.
"""
import json
import os
import re
import sys
import unittest

from harness import Base, settings, tarn

SAMPLE = ""


class report(Base):
    def setUp(self):
        super().setUp()
        self.profile = self.path("server.prof")
        self.execute(SAMPLE, "file", self.profile, code=0)
        self.page = self.path("server.html")

    def data_of(self, page):
        return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))

    def assert_page(self, page):
        self.assertTrue(page.startswith("<!DOCTYPE html><!-- tarn report -->"))
        data = self.data_of(page)
        self.assertEqual(data["totals"]["sites"], 200)
        self.assertGreater(len(data["actions"]), 0)
        for name, total in data["totals"].items():
            if name in data["sites"]:
                self.assertEqual(sum(data["sites"][name]), total, name)

    def test_writes_beside_the_profile(self):
        result = tarn("report", self.profile)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("server.html: ", result.stdout)
        self.assertIn("200 of 200 call sites", result.stdout)
        self.assert_page(self.read(self.page))

    def test_writes_over_a_report_and_over_nothing_else(self):
        self.assertEqual(tarn("report", self.profile).returncode, 0)
        self.assertEqual(tarn("report", self.profile).returncode, 0)
        self.write("server.html", "<p>my own page")
        self.assert_refused(tarn("report", self.profile), 2, "is not a report of tarn", "-o FILE")
        self.assertEqual(self.read(self.page), "<p>my own page")
        self.assertEqual(tarn("report", self.profile, "-o", self.page).returncode, 0)
        self.assert_page(self.read(self.page))

    def test_a_report_to_dev_null_suggests_no_browser(self):
        self.assertNotIn("browser", tarn("report", self.profile, "-o", "/dev/null").stdout)

    def test_standard_output(self):
        result = tarn("report", self.profile, "-o", "-")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_page(result.stdout)
        self.assertFalse(os.path.exists(self.page))
        self.assertIn("cannot both go to", tarn("report", self.profile, "-o", "-", "--json").stderr)

    def test_json(self):
        result = tarn("report", self.profile, "--json")
        told = json.loads(result.stdout)
        self.assertEqual(told["report"], self.page)
        self.assertEqual(told["bytes"], os.path.getsize(self.page))
        self.assertEqual((told["sites"], told["named_sites"], told["damage"]), (200, 200, ""))

    def test_a_damaged_profile_makes_a_report_that_says_so(self):
        size = os.path.getsize(self.profile)
        os.truncate(self.profile, size - 100)
        result = tarn("report", self.profile, code=4)
        self.assertIn("damaged", result.stderr)
        self.assertNotEqual(self.data_of(self.read(self.page))["quality"]["damage"], "")

    def test_open(self):
        opened = self.path("opened")
        browser = self.write("browser", f"#!/bin/sh\necho \"$@\" >>{self.folder}/opened\nexit ${{STATUS-0}}\n")
        result = tarn("report", self.profile, "--open", variables={"BROWSER": browser})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("--open", result.stdout)
        self.assertEqual(self.read(opened), self.page + "\n")
        # The next one is tried if a browser fails; arguments and %s are allowed.
        os.unlink(opened)
        result = tarn("report", self.profile, "--open", variables={"BROWSER": f"no-such-browser:{browser} --new %s twice"})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.read(opened), f"--new {self.page} twice\n")
        os.unlink(self.page)
        result = tarn("report", self.profile, "--open", variables={"BROWSER": browser, "STATUS": "3"})
        self.assertEqual(result.returncode, 125)
        self.assertIn("exit status 3", result.stderr)
        self.assertIn(f"file://{self.page}", result.stderr)
        self.assert_page(self.read(self.page))
        self.assert_refused(tarn("report", self.profile, "--open", "-o", "-"), 2, "cannot be used together")

    def test_other_files_are_refused_and_nothing_is_written(self):
        text = self.write("notes.prof", "no profile at all")
        for path in (text, self.folder, self.path("missing.prof"), "/dev/null"):
            result = tarn("report", path, "-o", self.page)
            self.assert_refused(result, 125, path)
            self.assertFalse(os.path.exists(self.page))

    def test_places_that_cannot_be_written_to(self):
        self.assert_refused(tarn("report", self.profile, "-o", self.path("missing", "x.html")), 125,
                            "No such file or directory")
        self.assert_refused(tarn("report", self.profile, "-o", "/dev/full"), 125, "No space left")

    def test_what_changed_since_an_earlier_profile(self):
        result = tarn("report", "--before", self.profile, self.profile, code=0)
        self.assertIn("with one recording per side", result.stderr)
        found = self.data_of(self.read(self.page))["difference"]
        told = json.loads(tarn("diff", "--json", self.profile, self.profile).stdout)
        for name, total in told["totals"].items():
            self.assertEqual(found["totals"][name]["after"], [round(total["after"])], name)
        self.assertNotIn("difference", self.data_of(tarn("report", self.profile, "-o", "-").stdout))

    def test_an_earlier_profile_that_cannot_be_compared_writes_nothing(self):
        text = self.write("notes.prof", "no profile at all")
        self.assert_refused(tarn("report", "--before", text, self.profile), 125, text)
        self.assert_refused(tarn("report", "--before", self.profile, self.profile, text, "-o", self.page), 2, "--before takes one",
                            "tarn merge")
        self.assertFalse(os.path.exists(self.page))

    def test_parts_of_the_run_only_where_each_call_is_known(self):
        data = self.data_of(tarn("report", self.profile, "-o", "-").stdout)
        slices = data["slices"]
        self.assertEqual(len(slices["end_ns"]), 100)
        self.assertGreater(sum(slices["allocations"]), 1000)
        self.assertLess(max(slices["row"]), len(data["sites"]["kind"]))

    def test_usage(self):
        self.assert_refused(tarn("report"), 2)
        self.assert_refused(tarn("report", self.profile, "--outptu", "x"), 2)
        self.assertIn("needs no network", tarn("report", "--help").stdout)


if __name__ == "__main__":
    settings.tarn, SAMPLE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
