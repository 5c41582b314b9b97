# SPDX-License-Identifier: MIT
"""The recycler benchmarks: what is read from Go's and JMH's output, who takes part, goals, and the session."""

import json
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import support  # noqa: F401  (sets the path)
import run_recyclers
from peers import recyclers as peers
from peers.contender import ContenderError
from report import recycler_goals, recycler_results, recycler_tables
from report.recycler_results import RecyclerResults
from runner import recyclers
from runner.launch import RunFailed
from runner.peer_output import OutputError, parse_go, parse_jmh
from runner.progress import Progress

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
        self.assertEqual(
            missing,
            [
                "Peer: no-such-a and no-such-b not installed, so it takes no part "
                "(Debian: apt-get install one)"
            ],
        )
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


class CellsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = Path(self.folder.name)
        (self.build / "bench").mkdir()
        for scene in recyclers.SCENES:
            recyclers.program_of(scene, self.build).write_text("")

    def cells(self, found: peers.Peers, processors: int = 2, patterns: str | None = None, notices=None):
        catalogue = recyclers.Catalogue(
            self.build, found, recyclers.FULL, run_recyclers.matcher(patterns)
        )
        notices = notices if notices is not None else []
        return recyclers.cells(list(recyclers.SCENES), catalogue, processors, notices)

    def test_everyone_takes_part_where_he_has_the_scene(self):
        found = self.cells(peers.Peers(Path("/go.test"), Path("/netty")))
        by_scene = {(cell.scene, cell.key): {task.label for task in cell.tasks} for cell in found}
        self.assertEqual(len(by_scene), 7)
        self.assertIn("Netty Recycler", by_scene["cross", "1 processor"])
        self.assertNotIn("Netty Recycler", by_scene["json", ""])
        self.assertIn("Go, kept by hand", by_scene["json", ""])

    def test_processors_reach_the_command(self):
        found = self.cells(peers.Peers(Path("/go.test"), Path("/netty")), patterns="Go sync.Pool,Netty*")
        commands = {(cell.scene, cell.key): [task.command for task in cell.tasks] for cell in found}
        self.assertIn("-test.cpu=1", commands["cross", "1 processor"][0])
        self.assertIn("-test.cpu=2", commands["cross", "2 processors"][0])
        self.assertIn("-test.bench=^BenchmarkParallelRecycled$", commands["parallel", "2 processors"][0])
        jmh_words = commands["parallel", "2 processors"][1]
        self.assertEqual(jmh_words[jmh_words.index("-t") + 1], "2")
        self.assertEqual(jmh_words[-1], r"\.getReleaseRecycled$")

    def test_one_processor_leaves_out_what_wants_two(self):
        notices: list[str] = []
        found = self.cells(peers.Peers(), 1, None, notices)
        self.assertEqual([cell.key for cell in found if cell.scene in ("parallel", "cross")], ["1 processor"])
        self.assertEqual(len(notices), 2)

    def test_missing_programs(self):
        recyclers.program_of("json", self.build).unlink()
        notices: list[str] = []
        found = self.cells(peers.Peers(Path("/go.test")), notices=notices)
        self.assertIn("libsimdjson-dev", notices[0])
        labels = [task.label for cell in found for task in cell.tasks if cell.scene == "json"]
        self.assertEqual(labels, ["Go, fresh", "Go, kept by hand", "Go sync.Pool"])
        recyclers.program_of("cross", self.build).unlink()
        with self.assertRaisesRegex(ContenderError, "build the benchmarks first"):
            self.cells(peers.Peers())


def own_task(script: str, **more) -> recyclers.Task:
    return recyclers.Task("x", "tarn", ("sh", "-c", script), recyclers.parse_own, **more)


class RunTest(unittest.TestCase):
    def test_figures_come_from_output_or_from_a_file(self):
        self.assertEqual(recyclers.run_task(own_task("""echo '{"ns": 2.5}'"""), 5), {"ns": 2.5})
        script = """echo 'other words'; echo '{"ns": 1}' > "$0" """
        task = recyclers.Task("x", "peer", ("sh", "-c", script, recyclers.RESULT_FILE), recyclers.parse_own)
        self.assertEqual(recyclers.run_task(task, 5), {"ns": 1})

    def test_failures_say_what_happened(self):
        cases = (
            (own_task("echo it broke >&2; exit 3"), "status 3: it broke"),
            (own_task("exit 3"), "status 3: no word"),
            (own_task("""echo '{"ns": 0}'"""), "no figure"),
            (own_task("""echo '{"ns": 1, "bytes": 64}'""", reuses=True), "nothing was reused"),
        )
        for task, words in cases:
            with self.assertRaisesRegex((RunFailed, OutputError), words):
                recyclers.run_task(task, 5)
        with self.assertRaises(ValueError):
            recyclers.run_task(own_task("echo no json"), 5)

    def test_a_run_beyond_its_limit_ends_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "child"
            with self.assertRaisesRegex(RunFailed, "stopped after 1 s"):
                recyclers.run_task(own_task(f"sleep 60 & echo $! > {path}; wait"), 1)
            # The kill reaches the whole session; what is left is at most a zombie.
            state = subprocess.run(
                ["ps", "-o", "stat=", "-p", path.read_text().strip()],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
        self.assertTrue(state == "" or state.startswith("Z"), state)

    def test_a_run_keeps_its_processors_and_loses_the_shells_settings(self):
        script = (
            "import os, json; print(json.dumps({'ns': len(os.sched_getaffinity(0)) + "
            "10 * ('GOGC' in os.environ) + 20 * ('_JAVA_OPTIONS' in os.environ)}))"
        )
        task = recyclers.Task("x", "tarn", (sys.executable, "-c", script), recyclers.parse_own, processors=1)
        with unittest.mock.patch.dict("os.environ", {"GOGC": "off", "_JAVA_OPTIONS": "-Xint"}):
            self.assertEqual(recyclers.run_task(task, 20), {"ns": 1})


def run(scene: str, cell: str, name: str, round_number: int, **figures: float) -> dict:
    return {"scene": scene, "cell": cell, "contender": name, "round": round_number, "figures": figures}


def sample() -> RecyclerResults:
    kinds = {"Go, fresh": "reference", "Go sync.Pool": "peer", "Netty Recycler": "peer", "tarn::recycler": "tarn"}
    results = RecyclerResults(kinds=kinds)
    for round_number, factor in enumerate((1.0, 0.5, 2.0)):  # the median is the value itself
        for name, value in zip(kinds, (20.0, 10.0, 12.0, 3.0)):
            results.runs.append(run("get_release", "", name, round_number, ns=value * factor))
        for name, value in zip(kinds, (9.0, 20.0, 50.0, 25.0)):
            results.runs.append(run("cross", "1 processor", name, round_number, ns=value * factor))
        for name, value in (("tarn::recycler", 60.0), ("C++, kept by hand", 59.0)):
            results.runs.append(
                run("buffer10k", "", name, round_number, ns=value * factor, allocations=0.0, bytes=0.0)
            )
    results.kinds["C++, kept by hand"] = "reference"
    return results


class ReportTest(unittest.TestCase):
    def test_ratios_and_verdicts(self):
        found = {goal.text: goal for goal in recycler_goals.all_goals(sample())}
        self.assertEqual(len(found), 5)
        self.assertIs(found["tarn::recycler: get_release, over Go sync.Pool"].reached, True)
        cross = found["tarn::recycler: cross 1 processor, over Go sync.Pool"]
        self.assertEqual((cross.figure, cross.reached), (1.25, False))
        self.assertIs(found["tarn::recycler: buffer10k, over C++, kept by hand"].reached, True)
        self.assertIs(found["tarn::recycler: buffer10k, allocations per operation"].reached, True)

    def test_without_a_peer_nothing_is_reached(self):
        results = sample()
        results.runs = [each for each in results.runs if each["contender"] != "Go sync.Pool"]
        goal = recycler_goals.all_goals(results)[0]
        self.assertIsNone(goal.reached)
        self.assertIn("not measured", recycler_tables.generated(results))

    def test_references_do_not_win(self):
        self.assertEqual(
            recycler_goals.lost(sample()),
            ["cross 1 processor ns: Go sync.Pool 20.00, tarn::recycler 25.00 (1.25)"],
        )

    def test_tables_begin_with_the_recyclers(self):
        table = recycler_tables.small_table(sample())
        self.assertEqual(table.header, ["contender", "get_release", "cross, 1 processor"])
        self.assertEqual(table.rows[0], ["tarn::recycler", "3.00 [1.50..6.00]", "25.00 [12.50..50.00]"])
        self.assertEqual(table.rows[-1][0], "Go, fresh (reference)")

    def test_saved_results_come_back_and_those_of_pools_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.json"
            sample().save(path)
            self.assertEqual(recycler_results.load(path), sample())
            path.write_text('{"format": "pools 1"}')
            with self.assertRaisesRegex(ValueError, "recyclers 1"):
                recycler_results.load(path)


class PageTest(unittest.TestCase):
    def test_the_published_page_is_written_only_by_a_whole_session(self):
        options = run_recyclers.parse_arguments([])
        self.assertEqual(run_recyclers.page_of(options, sample()), run_recyclers.PUBLISHED)
        without = sample()
        without.notices.append("Go sync.Pool: go not installed, so it takes no part")
        with unittest.mock.patch("run_recyclers.say"):
            self.assertIsNone(run_recyclers.page_of(options, without))
        for words in (["--quick"], ["--scenes", "cross"], ["--contenders", "tarn*"]):
            self.assertIsNone(run_recyclers.page_of(run_recyclers.parse_arguments(words), sample()))


class SessionTest(unittest.TestCase):
    def test_everyone_runs_once_a_round_in_changing_order_and_a_broken_one_only_once(self):
        order: list[str] = []

        def fake(task: recyclers.Task, limit_seconds: int) -> dict[str, float]:
            self.assertEqual(limit_seconds, 7)
            order.append(task.label)
            if task.label == "broken":
                raise RunFailed("ended with status 3")
            return {"ns": 2.0}

        names = ["a", "b", "c", "d", "broken"]
        tasks = tuple(recyclers.Task(name, "peer", (), recyclers.parse_own) for name in names)
        results = RecyclerResults()
        with open("/dev/null", "w", encoding="utf-8") as nowhere:
            session = recyclers.RecyclerSession(results, 1, 7, fake)
            session.measure([recyclers.Cell("cross", "", tasks)], 4, Progress(20, nowhere))
        self.assertEqual(sorted(order), ["a"] * 4 + ["b"] * 4 + ["broken"] + ["c"] * 4 + ["d"] * 4)
        rounds = [[each["contender"] for each in results.runs if each["round"] == r] for r in range(4)]
        self.assertGreater(len({tuple(each) for each in rounds}), 1)
        self.assertEqual([each["contender"] for each in results.failures], ["broken"])


if __name__ == "__main__":
    unittest.main()
