# SPDX-License-Identifier: MIT
"""What is read from Go's and JMH's output, how the peers of other languages and those out of crates
are built, and which versions crates have."""

import json
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

import support  # noqa: F401  (sets the path)
from peers import crates
from peers import recyclers as peers
from peers.contender import Contender, ContenderError
from peers.output import OutputError, parse_go, parse_jmh

GO_TEXT = """goos: linux
goarch: amd64
pkg: tarn.bench/recyclers
cpu: AMD EPYC
BenchmarkGetReleaseRecycled-2   \t16045222\t        14.98 ns/op\t       0 B/op\t       0 allocs/op
PASS
"""


def jmh(method: str, score, threads: int = 1, unit: str = "ns/op", **secondary) -> dict:
    return {
        "benchmark": f"tarn.bench.recyclers.Recyclers.{method}",
        "mode": "avgt",
        "threads": threads,
        "primaryMetric": {"score": score, "scoreError": "NaN", "scoreUnit": unit},
        "secondaryMetrics": {name: {"score": value} for name, value in secondary.items()},
    }


class GoOutputTest(unittest.TestCase):
    def test_figures_of_one_line_with_and_without_processors(self):
        expected = {"ns": 14.98, "bytes": 0.0, "allocations": 0.0}
        self.assertEqual(parse_go(GO_TEXT, "GetReleaseRecycled"), expected)
        self.assertEqual(parse_go(GO_TEXT.replace("Recycled-2", "Recycled"), "GetReleaseRecycled"), expected)

    def test_large_and_small_figures(self):
        text = "BenchmarkBuffer10kFresh \t 36910\t 7314 ns/op\t 1.5e+03 B/op\n"
        self.assertEqual(parse_go(text, "Buffer10kFresh"), {"ns": 7314.0, "bytes": 1500.0})
        self.assertEqual(parse_go("BenchmarkX-1 1000000000 0.2650 ns/op\n", "X"), {"ns": 0.265})

    def test_another_benchmark_of_a_longer_name_is_not_taken(self):
        for text in ("", "PASS\n", GO_TEXT.replace("Recycled-2", "RecycledTwice-2"), GO_TEXT + GO_TEXT):
            with self.assertRaises(OutputError, msg=text):
                parse_go(text, "GetReleaseRecycled")

    def test_a_failure_shows_its_last_line(self):
        text = "--- FAIL: BenchmarkCrossRecycled-2\n    small_test.go:3: 4 objects were overwritten\nFAIL\n\n"
        with self.assertRaisesRegex(OutputError, "the last: FAIL"):
            parse_go(text, "CrossRecycled")

    def test_what_is_no_figure_is_refused(self):
        for values in ("x ns/op", "NaN ns/op", "1.0 MB/s"):
            with self.assertRaises(OutputError, msg=values):
                parse_go(f"BenchmarkX-2 10 {values}\n", "X")


class JmhOutputTest(unittest.TestCase):
    def test_average_time_of_a_thread_becomes_wall_time_over_all_operations(self):
        text = json.dumps([jmh("getReleaseRecycled", 9.0, 2, **{"gc.alloc.rate.norm": 0.25, "gc.count": 1})])
        self.assertEqual(parse_jmh(text, "getReleaseRecycled"), {"ns": 4.5, "bytes": 0.25})

    def test_figures_without_the_profiler(self):
        entry = jmh("crossFresh", 12.5)
        del entry["secondaryMetrics"]
        self.assertEqual(parse_jmh(json.dumps([entry]), "crossFresh"), {"ns": 12.5})

    def test_no_other_method_and_no_other_unit(self):
        wrong = (
            [],
            [jmh("x", 1.0), jmh("x", 1.0)],
            [jmh("xy", 1.0)],
            [jmh("x", 1.0, unit="us/op")],
            [jmh("x", "NaN")],
            [jmh("x", 1.0, threads=0)],
            [{"benchmark": "a.x"}],
            {"benchmark": "a.x"},
            [3],
        )
        for content in wrong:
            with self.assertRaises(OutputError, msg=str(content)):
                parse_jmh(json.dumps(content), "x")
        for text in ("", "[", "null"):
            with self.assertRaises(OutputError, msg=text):
                parse_jmh(text, "x")


class PeersTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "source").mkdir()
        (self.root / "source" / "a.go").write_text("package a\n")
        self.tools = peers.Toolchain("Peer", {"sh": "dash"}, self.root / "source")
        self.built = 0

    def prepare(self, missing: list[str], may_build: bool = True, tools=None, problem: str = "") -> Path | None:
        def build(folder: Path, log: Path) -> None:
            self.built += 1
            log.write_text(problem)
            if problem:
                raise ContenderError(f"building peers: it failed; see {log}")
            (folder / "program").write_text("")

        folder = self.root / "build" / "peer"
        return peers.prepare(tools or self.tools, folder, build, may_build, missing, lambda line: None)

    def test_a_missing_program_is_named_with_its_package(self):
        tools = peers.Toolchain("Peer", {"sh": "dash", "no-such-a": "one", "no-such-b": "one"}, self.root)
        missing: list[str] = []
        self.assertIsNone(self.prepare(missing, tools=tools))
        line = "Peer: no-such-a and no-such-b not installed, so it takes no part (Debian: apt-get install one)"
        self.assertEqual(missing, [line])
        self.assertEqual(self.built, 0)

    def test_what_is_built_is_built_again_only_for_other_sources(self):
        for _ in range(2):
            self.assertIsNotNone(self.prepare([]))
        self.assertEqual(self.built, 1)
        (self.root / "source" / "a.go").write_text("package b\n")
        missing: list[str] = []
        self.assertIsNone(self.prepare(missing, may_build=False))
        self.assertIn("--built-peers", missing[0])
        self.assertIsNotNone(self.prepare([]))
        self.assertEqual(self.built, 2)

    def test_a_build_that_fails_is_one_line_and_is_tried_again(self):
        for problem, words in (("syntax error", "it failed; see"), ("Unknown host x", "once with a network")):
            missing: list[str] = []
            self.assertIsNone(self.prepare(missing, problem=problem))
            self.assertEqual(len(missing), 1)
            self.assertIn(words, missing[0])
            self.assertIn("takes no part", missing[0])
        self.assertIsNotNone(self.prepare([]))


class CratesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.log = self.root / "log"

    def test_sources_are_fetched_again_only_for_other_versions(self):
        fetched = []

        def vendor(command: list[str], folder: Path, log: Path) -> None:
            fetched.append((folder / "Cargo.toml").read_text())
            for name in crates.CRATES:
                (Path(command[2]) / name).mkdir(parents=True, exist_ok=True)
                (Path(command[2]) / name / "Cargo.toml").write_text("")

        with (
            unittest.mock.patch.object(crates, "run_logged", vendor),
            unittest.mock.patch.object(crates.shutil, "which", lambda name: name),
        ):
            for _ in range(2):
                crates.fetch(self.root, self.log)
            self.assertEqual(len(fetched), 1)
            before = crates.folder_of(self.root, "snmalloc", "snmalloc-sys")
            with unittest.mock.patch.dict(crates.CRATES, {"snmalloc-sys": "0.0.1"}):
                crates.fetch(self.root, self.log)
                self.assertNotEqual(before, crates.folder_of(self.root, "snmalloc", "snmalloc-sys"))
        self.assertEqual(len(fetched), 2)
        self.assertIn('snmalloc-sys = "=0.0.1"', fetched[1])

    def test_a_step_that_fails_names_itself_and_its_log(self):
        with self.assertRaisesRegex(ContenderError, f"sh -c exit 3 failed; see {self.log}"):
            crates.run_logged(["sh", "-c", "exit 3"], self.root, self.log)

    def test_tcmalloc_has_what_its_caches_per_processor_need(self):
        def build(source: Path, folder: Path, log: Path, *options: str) -> Path:
            self.assertTrue((source / "CMakeLists.txt").exists())
            folder.mkdir()
            (folder / "libtcmalloc.so").write_text("")
            return folder

        with unittest.mock.patch.object(crates, "cmake_build", build):
            tcmalloc = crates.build_tcmalloc(self.root / "vendor", self.root, self.log)
        self.assertEqual(dict(tcmalloc.environment), {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
        self.assertEqual(tcmalloc.library.name, "libtcmalloc.so")

    def test_caches_per_processor_are_seen_in_what_tcmalloc_says(self):
        for slab, expected in (("65882 (    0.1 MiB)", True), ("    0 (    0.0 MiB)", False)):
            text = f"MALLOC:          {slab} per-CPU slab bytes used\n"
            done = types.SimpleNamespace(stdout="", stderr=text)
            with unittest.mock.patch.object(crates.subprocess, "run", lambda *words, **more: done):
                self.assertIs(crates.has_caches_per_processor(Contender("tcmalloc", self.log)), expected)

    def test_mimalloc_versions_are_read_in_both_notations(self):
        versions = {"20401": ["2", "4", "1"], "30403": ["3", "4", "3"], "219": ["2", "1", "9"]}
        for digits, expected in versions.items():
            with tempfile.TemporaryDirectory() as folder:
                header = Path(folder) / "include" / "mimalloc.h"
                header.parent.mkdir()
                header.write_text(f"#define MI_MALLOC_VERSION {digits}  // x\n")
                self.assertEqual(crates.mimalloc_version(Path(folder)), expected)


if __name__ == "__main__":
    unittest.main()
