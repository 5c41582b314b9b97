# SPDX-License-Identifier: MIT
"""The pool benchmarks: how figures are looked up, what counts as reached, what is named as lost, and the session."""

import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401  (sets the path)
from peers import pools as peers
from peers.contender import Contender, ContenderError
from report import markdown, pool_goals, pool_results, pool_tables
from report.pool_results import PoolResults
from runner import pools
from runner.launch import RunFailed
from runner.progress import Progress

KINDS = {
    "tarn::pool_of": "tarn",
    "tarn::object_pool": "tarn",
    "classic object pool": "peer",
    "new/delete, glibc": "malloc",
    "new/delete, mimalloc": "malloc",
    "bare thread-local array": "reference",
}


def run(scene: str, cell: str, name: str, round_number: int, **figures: float) -> dict:
    return {"scene": scene, "cell": cell, "contender": name, "round": round_number, "figures": figures}


def sample() -> PoolResults:
    """tarn wins among the peers with one thread and loses to mimalloc with two; the reference is ahead of all."""
    results = PoolResults(kinds=dict(KINDS))
    nanoseconds = {
        "1": (5.0, 6.0, 20.0, 50.0, 10.0, 4.0),
        "2": (9.0, 8.0, 20.0, 50.0, 4.0, 3.0),
    }
    for round_number, factor in enumerate((1.0, 0.5, 2.0)):  # the median is the value itself
        for cell, values in nanoseconds.items():
            for name, value in zip(KINDS, values):
                share = 0.5 if name == "new/delete, glibc" else 1.0
                results.runs.append(run("threads", cell, name, round_number, ns=value * factor, share=share))
    return results


class FiguresTest(unittest.TestCase):
    def test_medians_are_those_of_the_rounds(self):
        self.assertEqual(sample().median("threads", "1", "tarn::pool_of", "ns"), 5.0)
        self.assertIsNone(sample().median("threads", "4", "tarn::pool_of", "ns"))

    def test_a_failure_in_any_round_leaves_the_cell_without_a_figure(self):
        results = sample()
        results.failures.append(
            {"scene": "threads", "cell": "1", "contender": "tarn::pool_of", "round": 2, "reason": "crashed"}
        )
        self.assertIsNone(results.median("threads", "1", "tarn::pool_of", "ns"))
        self.assertIsNotNone(results.median("threads", "2", "tarn::pool_of", "ns"))

    def test_saved_results_come_back_and_foreign_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "deep" / "results.json"
            sample().save(path)
            self.assertEqual(pool_results.load(path), sample())
            for content in ("[]", '{"format": 1}', '{"format": "pools 1", "unknown": 0}', "no json"):
                path.write_text(content)
                with self.assertRaises(ValueError, msg=content):
                    pool_results.load(path)


class GoalsTest(unittest.TestCase):
    def goal(self, text: str) -> pool_goals.Goal:
        return next(goal for goal in pool_goals.all_goals(sample()) if goal.text.endswith(text))

    def test_a_ratio_is_over_the_best_malloc(self):
        goal = self.goal("1 threads, over the best malloc")
        self.assertEqual((goal.figure, goal.remark, goal.reached), (0.5, "new/delete, mimalloc", True))
        self.assertIs(self.goal("2 threads, over the best malloc").reached, False)

    def test_the_limits_of_rates_are_from_below(self):
        self.assertIs(pool_goals.Goal("x", 0.5, 0.45, False).reached, True)
        self.assertIs(pool_goals.Goal("x", 0.4, 0.45, False).reached, False)

    def test_what_was_not_measured_is_neither_reached_nor_missed(self):
        results = sample()
        del results.kinds["bare thread-local array"]
        results.runs = [each for each in results.runs if each["contender"] != "bare thread-local array"]
        goal = next(goal for goal in pool_goals.all_goals(results) if "thread-local array" in goal.text)
        self.assertIsNone(goal.reached)

    def test_only_peers_and_mallocs_win(self):
        lines = pool_goals.lost(sample())
        self.assertEqual(len(lines), 1)
        self.assertIn("threads 2 ns: new/delete, mimalloc 4.00, tarn::object_pool 8.00 (2.00)", lines[0])


class TablesTest(unittest.TestCase):
    def test_rows_are_sorted_and_marked(self):
        table = pool_tables.threads_table(sample())
        self.assertEqual(table.rows[0][0], "bare thread-local array (reference)")
        self.assertEqual(table.rows[1][:2], ["tarn::pool_of", "5.0 [2.5..10.0]"])
        self.assertTrue(table.rows[-1][1].endswith(pool_tables.SHORTENED))

    def test_only_what_stands_between_the_markers_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text(f"before\n\nBEGIN\nold\n{markdown.END}\n\nafter\n")
            markdown.replace_block(page, pool_tables.generated(sample()), "BEGIN")
            text = page.read_text()
        self.assertTrue(text.startswith("before\n\nBEGIN\n") and text.endswith(f"{markdown.END}\n\nafter\n"))
        self.assertNotIn("old", text)
        self.assertIn("### What has to be reached", text)


class ContendersTest(unittest.TestCase):
    def program(self, folder: str, *names: str) -> Path:
        path = Path(folder) / "pools_pairs"
        path.write_text("#!/bin/sh\n" + "".join(f"echo {name}\n" for name in names))
        path.chmod(0o755)
        return path

    def test_new_and_delete_run_under_each_malloc_and_pools_once(self):
        libraries = [("malloc", Contender("glibc", None)), ("tarn", Contender("tarn", Path("/x.so")))]
        with tempfile.TemporaryDirectory() as folder:
            found = peers.contenders_of(self.program(folder, "new-delete", "tarn-pool-of"), libraries)
            self.assertEqual(
                [(each.label, each.kind) for each in found],
                [("new/delete, glibc", "malloc"), ("new/delete, tarn", "tarn"), ("tarn::pool_of", "tarn")],
            )
            self.assertEqual(
                [each.label for each in peers.matching(found, "tarn*, *glibc")][0], "new/delete, glibc"
            )
            with self.assertRaises(ContenderError):
                peers.contenders_of(self.program(folder, "unheard-of"), libraries)

    def test_a_library_without_contenders_is_named(self):
        notices = peers.missing_libraries({"boost-pool", "tarn-pool-of"})
        self.assertEqual(len(notices), 2)
        self.assertIn("libboost-container-dev", notices[0])
        self.assertIn("libfoonathan-memory-dev", notices[1])


class Launcher:
    """Stands for the real one: prints a figure, and fails for one contender."""

    program, limit_seconds = Path("x"), 1

    def __init__(self, scratch: Path):
        self.scratch, self.order = scratch, []

    @property
    def output(self) -> Path:
        return self.scratch / "output"

    def run(self, command, malloc):
        self.order.append(command[1])
        if command[1] == "broken":
            raise RunFailed("ended with signal 11")
        self.output.write_text('{"pair1": 2.0}')


class SessionTest(unittest.TestCase):
    def test_everyone_runs_once_a_round_and_a_broken_one_only_once(self):
        glibc = Contender("glibc", None)
        three = tuple(peers.PoolContender(name, "peer", name, glibc) for name in ("a", "b", "broken"))
        cell = pools.Cell("pairs", (), Path("pools_pairs"), three)
        with tempfile.TemporaryDirectory() as folder:
            launcher = Launcher(Path(folder))
            results = PoolResults()
            with open("/dev/null", "w", encoding="utf-8") as nowhere:
                session = pools.PoolSession(launcher, results, 1, 1000)
                session.measure([cell], 3, Progress(9, nowhere))
        self.assertEqual(sorted(launcher.order), ["a"] * 3 + ["b"] * 3 + ["broken"])
        self.assertEqual(len(results.runs), 6)
        self.assertEqual([each["contender"] for each in results.failures], ["broken"])


if __name__ == "__main__":
    unittest.main()
