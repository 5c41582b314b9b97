# SPDX-License-Identifier: MIT
"""The protocol: random order, failures, interrupts, progress, selection, and the command line."""

import io
import tempfile
import unittest
import unittest.mock
from dataclasses import replace
from pathlib import Path

import run
import support
from peers.contender import Contender, ContenderError
from report.results import Results
from runner.launch import Launcher, RunFailed, clean_environment
from runner.progress import Progress
from runner.selection import Patterns
from runner.session import Cell, Session, Task, select

TARN, GLIBC, OTHER = Contender("tarn", Path("/x.so")), Contender("glibc", None), Contender("other", Path("/y.so"))


class FakeLauncher:
    """Records who ran; fails or answers differently where told to."""

    def __init__(self, crash: str = "", wrong: str = ""):
        self.crash, self.wrong = crash, wrong
        self.calls: list[str] = []
        self.touched: list[bool] = []

    def run(self, command, contender, environment, processors, touch):
        self.calls.append(contender.name)
        self.touched.append(touch)
        if contender.name == self.crash:
            raise RunFailed("ended with signal 11")
        return {"seconds": 1.0, "result": "other" if contender.name == self.wrong else "same"}


def cell_of(**more) -> Cell:
    tasks = [Task(each.name, "peer", (), lambda report, launcher: report, each) for each in (TARN, GLIBC, OTHER)]
    return Cell("workload", "a", tuple(tasks), **more)


def measure(launcher: FakeLauncher, rounds: int, **more) -> Results:
    results = Results("malloc")
    Session(launcher, results, 1).measure([cell_of(**more)], rounds, Progress(3 * rounds, io.StringIO()))
    return results


class SessionTest(unittest.TestCase):
    def test_every_round_has_everyone_once_in_changing_order(self):
        launcher = FakeLauncher()
        results = measure(launcher, 8)
        rounds = [tuple(launcher.calls[3 * each : 3 * each + 3]) for each in range(8)]
        self.assertTrue(all(sorted(each) == ["glibc", "other", "tarn"] for each in rounds), rounds)
        self.assertGreater(len(set(rounds)), 2)
        self.assertEqual([each["round"] for each in results.runs], [number for number in range(8) for _ in range(3)])

    def test_the_warm_up_is_under_the_systems_malloc_and_does_not_count(self):
        launcher = FakeLauncher()
        results = measure(launcher, 1, warm_up=True, touch=False)
        self.assertEqual((launcher.calls[0], len(launcher.calls), len(results.runs)), ("glibc", 4, 3))
        self.assertEqual(launcher.touched, [False] * 4)

    def test_a_crash_is_recorded_once_and_not_repeated(self):
        launcher = FakeLauncher(crash="other")
        results = measure(launcher, 3)
        self.assertEqual([failure["contender"] for failure in results.failures], ["other"])
        self.assertEqual(launcher.calls.count("other"), 1)
        self.assertEqual(len(results.runs), 6)

    def test_a_result_unlike_the_systems_is_a_failure(self):
        results = measure(FakeLauncher(wrong="tarn"), 2, warm_up=True)
        self.assertEqual([failure["contender"] for failure in results.failures], ["tarn"])
        self.assertIn("another result", results.failures[0]["reason"])

    def test_what_cannot_be_prepared_is_a_notice(self):
        def broken():
            raise OSError("no space")

        cells = [cell_of(), cell_of(prepare=lambda: "it does not load x"), cell_of(prepare=broken)]
        results = Results("malloc")
        self.assertEqual(Session(None, results, 1).prepare(cells), cells[:1])
        reasons = ["it does not load x", "its input could not be made: no space"]
        self.assertEqual(results.notices, [f"workload a left out: {reason}" for reason in reasons])


class SelectionTest(unittest.TestCase):
    def chosen(self, scenes: str | None, contenders: str | None, **more) -> list[str]:
        cells = [cell_of(**more), replace(cell_of(), scene="real", key="b")]
        found = select(cells, Patterns(scenes), Patterns(contenders), ())
        return [f"{cell.key}: {', '.join(task.contender for task in cell.tasks)}" for cell in found]

    def test_scenes_parameters_and_contenders(self):
        self.assertEqual(self.chosen("b", "other,tarn"), ["b: tarn, other"])
        self.assertEqual(self.chosen("work*,none*", "t*"), ["a: tarn"])
        self.assertEqual(self.chosen(None, "glibc", twin=True), ["a: glibc, glibc again", "b: glibc"])

    def test_unknown_names_are_refused(self):
        for scenes, contenders in ((None, "nobody,tarn"), ("nowhere,a", None), ("none*", None)):
            with self.assertRaisesRegex(ContenderError, "unknown .*(nobody|nowhere|none)"):
                self.chosen(scenes, contenders)


class LauncherTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.launcher = Launcher(Path("bench_launch"), Path(folder.name), 1, 5)
        self.good = {"status": 0, "signal": 0, "wall": 1.0, "preload": "used"}

    def test_reports_are_checked(self):
        self.assertEqual(self.launcher.check(self.good, TARN), self.good)
        self.launcher.errors.write_text("first\nit broke\n")
        for change, word in (
            ({"status": 3}, "status 3: it broke"),
            ({"signal": 11}, "signal 11"),
            ({"preload": "missing"}, "not in use"),
            ({"signal": 9, "wall": 5.1}, "--limit"),
        ):
            with self.assertRaisesRegex(RunFailed, word):
                self.launcher.check({**self.good, **change}, TARN)

    def test_a_command_may_write_a_file_of_its_own(self):
        words = self.launcher.wrap(["java", "-rff", "{result}"], None, touch=False)
        self.assertEqual(words[-3:], ["java", "-rff", str(self.launcher.result)])
        self.assertEqual(words[words.index("--touch") + 1], "0")
        self.assertNotIn("--preload", words)

    def test_settings_of_the_callers_shell_do_not_reach_contenders(self):
        with unittest.mock.patch.dict("os.environ", {"MALLOC_CONF": "x", "TARN_DECAY_MS": "1", "HOME": "/h"}):
            tuned = Contender("tuned", None, (("TARN_DECAY_MS", "7"),))
            self.assertNotIn("MALLOC_CONF", clean_environment(GLIBC))
            self.assertNotIn("TARN_DECAY_MS", clean_environment(GLIBC))
            self.assertEqual(clean_environment(tuned)["TARN_DECAY_MS"], "7")
            self.assertEqual(clean_environment(tuned)["HOME"], "/h")


class ProgressTest(unittest.TestCase):
    def test_time_left_follows_from_the_steps_done(self):
        times = iter([0.0, 10.0, 10.0])
        progress = Progress(5, io.StringIO(), lambda: next(times))
        self.assertIsNone(progress.remaining())
        progress.done = 1
        self.assertAlmostEqual(progress.remaining(), 40.0)
        self.assertEqual(progress.line("x"), "[1/5, 0:40 left] x")


class CommandLineTest(unittest.TestCase):
    def main(self, *words: str) -> tuple[int, str]:
        """The status, and what was printed."""
        out = io.StringIO()
        with unittest.mock.patch("sys.stderr", out), unittest.mock.patch("sys.stdout", out):
            try:
                return run.main(list(words)), out.getvalue()
            except SystemExit as ended:
                return ended.code, out.getvalue()

    def test_bad_arguments_end_with_status_2(self):
        for words in ("-n 0", "--limit 0", "--touch -1", "--scale 0", "--no-such-option", "nosuite", "buffers --sizes x"):
            self.assertEqual(self.main(*words.split())[0], 2, words)

    def test_programs_that_are_not_built_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for suite in run.SUITES:
                words = ["--built-peers"] if suite == "recyclers" else []
                status, printed = self.main(suite, *words, "--build-dir", folder)
                self.assertEqual((status, "build the benchmarks first" in printed), (2, True), printed)

    def test_an_interrupt_keeps_and_prints_what_is_done(self):
        def interrupted(session, cells, rounds, progress):
            sample = support.malloc_sample()
            session.results.kinds, session.results.runs = sample.kinds, sample.runs
            raise KeyboardInterrupt

        plan = run.malloc.Plan([cell_of()])
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "bench").mkdir()
            (Path(folder) / "bench" / "bench_launch").write_text("")
            suite = replace(run.SUITES["malloc"], plan=lambda options, inputs: plan)
            with unittest.mock.patch.dict(run.SUITES, malloc=suite), unittest.mock.patch.object(Session, "measure", interrupted):
                status, printed = self.main("--build-dir", folder)
        self.assertEqual(status, 130)
        self.assertIn("Time over the best peer", printed)
        self.assertIn("stopped before the end", printed)

    def test_the_published_page_is_written_only_by_a_whole_session(self):
        sample = support.recyclers_sample()

        def page(*words: str, suite: str = "recyclers") -> Path | None:
            with unittest.mock.patch("sys.stderr", io.StringIO()):
                return run.page_of(run.SUITES[suite], run.parse_arguments(run.SUITES[suite], list(words)), sample)

        self.assertEqual(page(), run.ROOT / "docs/explanation" / "recycler-benchmarks.md")
        self.assertEqual(page(suite="pools"), run.ROOT / "docs/explanation" / "pools-benchmarks.md")
        self.assertIsNone(page(suite="malloc"))
        for words in (["--quick"], ["--scale", "5"], ["--scenes", "cross"], ["--contenders", "tarn*"], ["--from-json", "x"]):
            self.assertIsNone(page(*words))
        sample.notices.append("Go sync.Pool: go not installed, so it takes no part")
        self.assertIsNone(page())
        self.assertEqual(page("--markdown", "x.md"), Path("x.md"))


if __name__ == "__main__":
    unittest.main()
