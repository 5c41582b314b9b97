# SPDX-License-Identifier: MIT
"""End-to-end: `tarn options`, help and slips; and what only the real library can show."""
import json
import subprocess

from harness import Base, settings, tarn


class options(Base):
    def test_table(self):
        result = tarn("options", variables={"TARN_DECAY_MS": "777"})
        self.assertEqual(result.returncode, 0, result.stderr)
        row = next(line for line in result.stdout.splitlines() if line.startswith("TARN_DECAY_MS"))
        self.assertEqual(row.split()[1:], ["777", "1000", "environment"])
        self.assertIn("Idle memory goes back", result.stdout)
        self.assertIn("9.8.7", result.stdout)

    def test_json(self):
        table = json.loads(tarn("options", "--json").stdout)
        self.assertEqual([one["name"] for one in table["options"]], ["decay_ms", "stats"])
        self.assertEqual(table["options"][0]["source"], "default")
        self.assertEqual(table["library"], settings.library)

    def test_library_without_options(self):
        library = self.compile("libplain.so", "int plain() { return 1; }", "-shared", "-fPIC")
        result = tarn("options", variables={"TARN_LIBRARY": library})
        self.assert_refused(result, 125, "does not answer", "TARN_LIBRARY")


class usage(Base):
    def test_help(self):
        for words in (["help"], ["--help"], ["-h"]):
            result = tarn(*words)
            self.assertEqual(result.returncode, 0)
            self.assertIn("Examples:", result.stdout)
        for command in ("run", "compare", "cost", "options"):
            self.assertEqual(tarn("help", command).stdout, tarn(command, "--help").stdout)
            self.assertIn(f"Usage: tarn {command}", tarn("help", command).stdout)

    def test_version(self):
        self.assertRegex(tarn("--version").stdout, r"^tarn \d+\.\d+\.\d+\n$")

    def test_slips(self):
        self.assert_refused(tarn("comapre"), 2, "tarn compare")
        self.assert_refused(tarn("zzzzzz"), 2, "tarn help")
        self.assert_refused(tarn("compare", "--onyl", "tarn", "--", "true"), 2, "--only")
        self.assert_refused(tarn("run", "--stat", "--", "true"), 125, "--stats")
        self.assert_refused(tarn("run"), 125, "no program given")
        self.assertEqual(tarn().returncode, 2)

    def test_links_no_allocator(self):
        trace = subprocess.run(["ldd", settings.tarn], capture_output=True, text=True, check=True).stdout
        for name in ("tarn", "jemalloc", "mimalloc", "tcmalloc"):
            self.assertNotIn(f"lib{name}", trace)


class real_library(Base):
    """The few things that the stand-in cannot show."""

    def test_every_option_is_explained(self):
        result = tarn("options")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        starts = [n for n, line in enumerate(lines) if line.startswith("TARN_")]
        self.assertGreater(len(starts), 3)
        for at in starts:
            self.assertRegex(lines[at + 1], r"^    [A-Z].*[^.]\.$")
            self.assertRegex(lines[at + 2], r"^    Accepts: .*[^.]\.$")

    def test_options_come_from_the_library(self):
        table = json.loads(tarn("options", "--json", variables={"TARN_DECAY_MS": "4321"}).stdout)
        decay = next(one for one in table["options"] if one["variable"] == "TARN_DECAY_MS")
        self.assertEqual((decay["value"], decay["source"]), ("4321", "environment"))
        for one in table["options"]:
            self.assertTrue(one["meaning"] and one["accepts"], one)

    def test_statistics_arrive(self):
        figures = json.loads(tarn("run", "--json", "--", "ls", "/").stderr)
        self.assertEqual(figures["processes_reporting"], 1)
        self.assertIsInstance(figures["returned_bytes"], int)

    def test_cost(self):
        result = tarn("cost", "-n", "1", "--only", "tarn", "--json", "-", "8M")
        self.assertEqual(result.returncode, 0, result.stderr)
        ways = {one["way"]: one for one in json.loads(result.stdout)["results"]}
        self.assertEqual(ways["tarn"]["library"], settings.library)
        # It keeps the buffer, and so does not fault it in again.
        self.assertLess(ways["tarn"]["metrics"]["faults"]["median"], 100)

    def test_compare(self):
        result = tarn("compare", "-n", "3", "--touch", "16", "--only", "system,tarn", "--", "ls", "/")
        self.assertEqual(result.returncode, 0, result.stderr)
