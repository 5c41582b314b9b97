#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether the places in a profile have their right names: programs of known source, recorded and then shown.

    names_test.py --tarn TARN --recorder LIBRARY --profile-dump BIN --compiler CXX [TEST ...]
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
settings = None


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-names-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, **more):
        variables = {**os.environ, "TARN_RECORDER": settings.recorder, **more}
        variables.pop("LD_PRELOAD", None)
        return variables

    def run_checked(self, *words, **more):
        more.setdefault("env", self.environment())
        result = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def compile(self, name, *flags, source="two_makers.cpp"):
        self.run_checked(settings.compiler, "-g", "-O1", "-fno-builtin", os.path.join(HERE, source), "-o",
                         self.path(name), *flags)
        return self.path(name)

    def profile(self, *words, options=("--mode", "full"), **more):
        """The profile as profile_dump tells it."""
        self.run_checked(settings.tarn, "profile", "-o", self.path("x.prof"), *options, "--", *words, **more)
        return json.loads(self.run_checked(settings.profile_dump, self.path("x.prof")).stdout)


class Holes(Base):
    """Segments of a file need not be adjacent in memory, and the first one need not begin where its alignment says."""

    def assert_named(self, *flags):
        known = self.profile(self.compile("program", *flags))
        counts = {}
        for site in known["sites"]:
            name = site["label"].split("(anonymous namespace)::")[-1].split("(")[0]
            counts[name] = counts.get(name, 0) + site["figures"]["allocations"]
        self.assertEqual((counts.get("first_maker"), counts.get("second_maker")), (20, 20), counts)

    def test_large_pages(self):
        self.assert_named("-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code")

    def test_fixed_place(self):
        self.assert_named("-no-pie", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code")

    def test_stub_of_malloc(self):
        self.assert_named("-no-pie", "-fno-pie", "-DTAKES_ADDRESS")

    def test_code_far_from_the_rest(self):
        self.assert_named("-no-pie", "-Wl,--section-start=.text=0x10400000")

    def test_first_segment_begins_within_a_page(self):
        self.assert_named("-no-pie", "-Wl,-z,max-page-size=0x200000", "-Wl,-Ttext-segment=0x3ff000")


class Libraries(Base):
    def test_one_at_the_place_of_another(self):
        program = self.compile("program", "-ldl", source="two_libraries.cpp")
        libraries = [self.compile(name + ".so", "-shared", "-fPIC", "-DMAKER=" + name, source="two_libraries.cpp")
                     for name in ("first", "other")]
        known = self.profile(program, *libraries)
        paths = {os.path.basename(one["path"]) for one in known["modules"]}
        self.assertLessEqual({"first.so", "other.so"}, paths)


def main():
    global settings
    parser = argparse.ArgumentParser()
    for word in ("--tarn", "--recorder", "--profile-dump", "--compiler"):
        parser.add_argument(word, required=True)
    parser.add_argument("tests", nargs="*")
    settings = parser.parse_args()
    unittest.main(argv=[sys.argv[0], *settings.tests])


if __name__ == "__main__":
    main()
