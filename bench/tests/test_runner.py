# SPDX-License-Identifier: MIT
"""The protocol: who takes part, random order, failures, interrupts, progress, inputs."""

import io
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import support  # noqa: F401  (sets the path)
import run
from peers import contender as peers
from peers import crates
from report.results import Results
from runner import inputs
from runner.launch import Launcher, Measurement, RunFailed, clean_environment
from runner.micro import micro_entries
from runner.progress import Progress
from runner.rows import Row, WORKLOADS, select_rows, thread_counts, workload_rows
from runner.session import Session, check_preloads, usable_rows


class FakeRow(Row):
    """Records who ran; fails or answers differently where told to."""

    group = "workload"
    note = ""

    def __init__(self, name: str, crash: str = "", wrong: str = "", absent: str | None = None):
        self.name, self.crash, self.wrong, self.absent = name, crash, wrong, absent
        self.calls: list[str] = []

    def missing(self) -> str | None:
        return self.absent

    def run(self, launcher, contender) -> Measurement:
        self.calls.append(contender.name)
        if contender.name == self.crash:
            raise RunFailed("ended with signal 11")
        result = "other" if contender.name == self.wrong else "same"
        return Measurement(1.0, 1.0, 1.0, 0.0, 1, 1, 0, result, True)


CONTENDERS = [
    peers.Contender("tarn", Path("/x.so")),
    peers.Contender("glibc", None),
    peers.Contender("other", Path("/y.so")),
]


def measure(row: FakeRow, rounds: int, seed: int = 1) -> Results:
    results = Results()
    Session(None, CONTENDERS, results, seed).measure(
        [row], rounds, results.runs, Progress(3 * rounds, io.StringIO())
    )
    return results


class SessionTest(unittest.TestCase):
    def test_every_round_has_everyone_once_in_changing_order(self):
        row = FakeRow("a")
        measure(row, 8)
        rounds = [
            tuple(row.calls[1 + 3 * each : 4 + 3 * each]) for each in range(8)
        ]  # the first call is the warm-up
        self.assertTrue(all(sorted(each) == ["glibc", "other", "tarn"] for each in rounds), rounds)
        self.assertGreater(len(set(rounds)), 2)

    def test_a_crash_is_recorded_once_and_not_repeated(self):
        row = FakeRow("a", crash="other")
        results = measure(row, 3)
        self.assertEqual([failure["contender"] for failure in results.failures], ["other"])
        self.assertEqual(row.calls.count("other"), 1)
        self.assertEqual(len(results.runs), 6)

    def test_a_result_unlike_the_systems_is_a_failure(self):
        results = measure(FakeRow("a", wrong="tarn"), 2)
        self.assertEqual([failure["contender"] for failure in results.failures], ["tarn"])
        self.assertIn("another result", results.failures[0]["reason"])

    def test_a_missing_program_is_a_notice(self):
        results = Results()
        kept = usable_rows(
            [FakeRow("a"), FakeRow("b", absent="not installed (apt-get install b)")], results, Path()
        )
        self.assertEqual([row.name for row in kept], ["a"])
        self.assertEqual(results.notices, ["row b left out: not installed (apt-get install b)"])

    def test_a_program_that_refuses_the_preload_is_left_out(self):
        class Static(FakeRow):
            def programs(self):
                return ["/no/such/program"]

        results = Results()
        self.assertEqual(check_preloads([Static("a")], CONTENDERS, results), [])
        self.assertIn("does not load", results.notices[0])


class LauncherTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.launcher = Launcher(Path("bench_launch"), Path(folder.name), 1, 5)
        self.good = {"status": 0, "signal": 0, "wall": 1.0, "preload": "used"}

    def test_reports_are_checked(self):
        self.assertEqual(self.launcher.check(self.good, CONTENDERS[0]), self.good)
        for change, word in (
            ({"status": 3}, "status 3"),
            ({"signal": 11}, "signal 11"),
            ({"preload": "missing"}, "not in use"),
            ({"signal": 9, "wall": 5.1}, "--limit"),
        ):
            with self.assertRaisesRegex(RunFailed, word):
                self.launcher.check({**self.good, **change}, CONTENDERS[0])

    def test_settings_of_the_callers_shell_do_not_reach_contenders(self):
        with unittest.mock.patch.dict("os.environ", {"MALLOC_CONF": "x", "TARN_DECAY_MS": "1", "HOME": "/h"}):
            tuned = peers.Contender("tuned", None, (("TARN_DECAY_MS", "7"),))
            self.assertNotIn("MALLOC_CONF", clean_environment(CONTENDERS[1]))
            self.assertNotIn("TARN_DECAY_MS", clean_environment(CONTENDERS[1]))
            self.assertEqual(clean_environment(tuned)["TARN_DECAY_MS"], "7")
            self.assertEqual(clean_environment(tuned)["HOME"], "/h")


class ContendersTest(unittest.TestCase):
    def test_extra_contenders(self):
        self.assertEqual(
            peers.parse_extra("mine=,A=1,B=2"), peers.Contender("mine", None, (("A", "1"), ("B", "2")))
        )
        for wrong in ("mine", "=/x", "mine=,oops", "mine=/no/such/library.so"):
            with self.assertRaises(peers.ContenderError, msg=wrong):
                peers.parse_extra(wrong)

    def test_selection_refuses_unknown_names(self):
        self.assertEqual([each.name for each in peers.select(CONTENDERS, "other,tarn")], ["tarn", "other"])
        with self.assertRaisesRegex(peers.ContenderError, "nobody"):
            peers.select(CONTENDERS, "nobody")

    def test_mimalloc_versions_are_read_in_both_notations(self):
        for digits, expected in (
            ("20401", ["2", "4", "1"]),
            ("30403", ["3", "4", "3"]),
            ("219", ["2", "1", "9"]),
        ):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "include").mkdir()
                (Path(folder) / "include" / "mimalloc.h").write_text(
                    f"#define MI_MALLOC_VERSION {digits}  // x\n"
                )
                self.assertEqual(crates.mimalloc_version(Path(folder)), expected)


class RowsTest(unittest.TestCase):
    def test_patterns_and_groups_select(self):
        rows = workload_rows(Path("/p"), 1000)
        self.assertEqual(len(rows), len(WORKLOADS))
        self.assertEqual([row.name for row in select_rows(rows, "larson*,ring-2")], ["larson-4", "ring-2"])
        self.assertEqual(select_rows(rows, "real"), [])
        self.assertEqual(select_rows(rows, "workload"), rows)

    def test_thread_counts_end_at_the_processors(self):
        self.assertEqual(thread_counts(1), [1])
        self.assertEqual(thread_counts(2), [1, 2])
        self.assertEqual(thread_counts(12), [1, 2, 4, 8, 12])
        self.assertEqual(thread_counts(64), [1, 2, 4, 8, 16, 32, 64])

    def test_generated_inputs_are_the_same_every_time(self):
        self.assertEqual(inputs.fast_import_stream(5), inputs.fast_import_stream(5))
        self.assertIn(b"M 100644 inline src/file_", inputs.fast_import_stream(5))


class MicroTest(unittest.TestCase):
    def test_time_per_item(self):
        output = {
            "benchmarks": [{"name": "hand_over/real_time", "items_per_second": 2e7}, {"name": "broken"}]
        }
        self.assertEqual(micro_entries(output), [{"test": "hand_over", "unit": "ns", "value": 50.0}])


class ProgressTest(unittest.TestCase):
    def test_time_left_follows_from_the_steps_done(self):
        times = iter([0.0, 10.0, 10.0])
        progress = Progress(5, io.StringIO(), lambda: next(times))
        self.assertIsNone(progress.remaining())
        progress.done = 1
        self.assertAlmostEqual(progress.remaining(), 40.0)
        self.assertEqual(progress.line("x"), "[1/5, 0:40 left] x")


class CommandLineTest(unittest.TestCase):
    def test_bad_arguments_end_with_status_2(self):
        for words in (["-n", "0"], ["--limit", "0"], ["--no-such-option"]):
            with self.assertRaises(SystemExit) as ended, unittest.mock.patch("sys.stderr", io.StringIO()):
                run.parse_arguments(words)
            self.assertEqual(ended.exception.code, 2)

    def test_programs_that_are_not_built_are_named(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch(
            "sys.stderr", io.StringIO()
        ) as errors:
            self.assertEqual(run.main(["--build-dir", folder]), 2)
        self.assertIn("build the benchmarks first", errors.getvalue())

    def test_an_interrupt_keeps_and_prints_what_is_done(self):
        def interrupted(options, results, contenders, scratch):
            sample = support.sample()
            results.contenders, results.rows, results.runs = sample.contenders, sample.rows, sample.runs
            raise KeyboardInterrupt

        with unittest.mock.patch.object(run, "measure", interrupted), unittest.mock.patch(
            "sys.stdout", io.StringIO()
        ) as output:
            self.assertEqual(run.main([]), 130)
        self.assertIn("Time over the best peer", output.getvalue())
        self.assertIn("stopped before the end", output.getvalue())


if __name__ == "__main__":
    unittest.main()
