# SPDX-License-Identifier: MIT
"""Results, how figures are looked up, tables, goals, and the generated part of a Markdown file."""

import json
import tempfile
import unittest
from pathlib import Path

import support
from report import goals, malloc_tables, markdown, results as result_files
from report.results import Results
from report.table import Table
from suites import buffers, malloc, pools, profiler, recyclers


class ResultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "deep" / "results.json"

    def test_the_grid_holds_medians(self):
        grid = support.malloc_sample().grid(malloc_tables.ROWS, "seconds")
        self.assertAlmostEqual(grid["a"]["tarn"], 0.8)
        self.assertAlmostEqual(grid["b"]["one"], 1.2)

    def test_medians_are_those_of_the_rounds(self):
        self.assertEqual(support.pools_sample().median("threads", "1", "tarn::pool_of", "ns"), 5.0)
        self.assertIsNone(support.pools_sample().median("threads", "4", "tarn::pool_of", "ns"))

    def test_a_failure_in_any_round_leaves_the_cell_without_a_figure(self):
        results = support.malloc_sample()
        results.failures.append(support.failure("workload", "a", "one", 2, "crashed"))
        grid = results.grid(malloc_tables.ROWS, "seconds")
        self.assertNotIn("one", grid["a"])
        self.assertIn("one", grid["b"])
        self.assertIsNone(results.median("workload", "a", "one", "seconds"))
        self.assertIsNotNone(results.median("real", "b", "one", "seconds"))

    def test_saved_results_come_back_and_foreign_files_are_refused(self):
        for sample in (support.malloc_sample(), support.pools_sample(), support.recyclers_sample()):
            sample.save(self.path)
            self.assertEqual(result_files.load(self.path, sample.suite), sample)
            unknown = f'{{"format": "{sample.suite} 1", "unknown": 0}}'
            for content in ("[]", '{"format": 99}', unknown, '{"format": 1}', "no json"):
                self.path.write_text(content)
                with self.assertRaises(ValueError, msg=content):
                    result_files.load(self.path, sample.suite)
        self.path.write_text('{"format": "pools 1"}')
        with self.assertRaisesRegex(ValueError, "recyclers 1"):
            result_files.load(self.path, "recyclers")

    def test_sessions_of_malloc_with_rows_are_read(self):
        figures = {"seconds": 2.0, "cpu": 2.0, "rss": 1, "minor": 1}
        content = {
            "format": 1,
            "machine": {"processors": 2},
            "protocol": {"rounds": 2},
            "contenders": [
                {"name": "tarn", "library": "", "version": "", "twin_of": None, "peer": False, "settings": {}},
                {"name": "one", "library": "x.so", "version": "7", "twin_of": None, "peer": True, "settings": {}},
                {"name": "tarn again", "library": "", "version": "", "twin_of": "tarn", "peer": False, "settings": {}},
            ],
            "rows": [{"name": "a", "group": "workload", "note": ""}, {"name": "gs", "group": "real", "note": ""}],
            "runs": [{"row": name, "contender": "one", "round": 1, **figures} for name in ("a", "gs")],
            "failures": [{"row": "gs", "contender": "tarn", "round": 0, "reason": "ended with signal 11"}],
            "notices": ["row lua left out"],
            "micro": [
                {"test": "pair64", "unit": "ticks per pair", "value": 30.0, "contender": "one"},
                {"test": "pair64", "unit": "ticks per pair", "value": 32.0, "contender": "one"},
                {"test": "hand_over", "unit": "ns", "value": 5.0, "contender": "one"},
            ],
            "scaling": [{"row": "ring@2", "contender": "one", "round": 0, **figures}],
        }
        self.path.parent.mkdir()
        self.path.write_text(json.dumps(content))
        results = result_files.load(self.path, "malloc")
        self.assertEqual(results.kinds, {"tarn": "tarn", "one": "peer", "tarn again": "twin"})
        self.assertEqual(results.versions, {"tarn": "", "one": "7"})
        self.assertEqual(results.rounds(), 2)
        self.assertEqual(results.median("workload", "a", "one", "seconds"), 2.0)
        self.assertEqual(results.cells("real", "scaling"), ["gs", "ring@2"])
        self.assertEqual(results.failures, [support.failure("real", "gs", "tarn", 0, "ended with signal 11")])
        table = malloc_tables.micro_table(results)
        self.assertEqual(table.rows, [["pair64, ticks per pair", "31.00 (1.00)"], ["hand_over, ns", "5.00 (1.00)"]])


def line(table: Table, name: str) -> list[str]:
    return next(row for row in table.rows if row[0] == name)


class MallocTablesTest(unittest.TestCase):
    def test_time_ratios_are_over_the_best_peer_and_name_lost_rows(self):
        table = malloc_tables.time_table(support.malloc_sample())
        self.assertEqual(line(table, "a")[1:4], ["0.80*", "1.00", "2.00"])
        self.assertEqual(line(table, "b")[1:4], ["1.50", "1.20", "1.00*"])
        self.assertEqual(line(table, "geomean, all")[1], "1.095")
        self.assertEqual(line(table, "geomean, real programs")[1], "1.500")
        self.assertEqual(line(table, "rows won")[1:4], ["1", "0", "1"])
        self.assertTrue(any("b 1.50 (two, above 1.10)" in remark for remark in table.remarks), table.remarks)

    def test_memory_ratios_are_over_the_leanest_including_the_subject(self):
        table = malloc_tables.rss_table(support.malloc_sample())
        self.assertEqual(line(table, "a")[1:4], ["1.10", "1.00*", "2.00"])
        self.assertEqual(line(table, "b")[1:4], ["1.00*", "1.20", "2.00"])

    def test_the_twin_shows_noise_and_is_no_peer(self):
        results = support.malloc_sample()
        self.assertEqual(results.names("peer"), ["one", "two"])
        self.assertEqual(line(malloc_tables.noise_table(results), "time"), ["time", "1.025", "1.050", "a"])

    def test_failures_and_notices_are_shown(self):
        results = support.malloc_sample()
        results.notices.append("real gs left out: not installed")
        results.failures.append(support.failure("workload", "a", "one", 0, "ended with signal 11"))
        text = "\n".join(malloc.SUITE.summary(results))
        self.assertIn("real gs left out", text)
        self.assertIn("FAILED: workload a under one, round 1: ended with signal 11", text)

    def test_text_columns_line_up(self):
        lines = malloc_tables.time_table(support.malloc_sample()).text().splitlines()
        ends = {len(line) for line in lines[2:3] + lines[4:6]}
        self.assertLessEqual(max(ends), len(lines[1]))

    def test_nothing_measured_gives_no_table(self):
        for suite in (malloc.SUITE, pools.SUITE, recyclers.SUITE, buffers.SUITE, profiler.SUITE):
            self.assertEqual(suite.all_tables(Results(suite.name)), [])

    def test_scaling_shows_the_gain_over_one_thread(self):
        results = support.malloc_sample()
        results.runs = [support.row("scaling", f"ring@{count}", "one", 0, 2.0 / count, 1) for count in (1, 2)]
        table = malloc_tables.scaling_tables(results)[0]
        self.assertEqual(table.rows, [["1", "2.000 (1.00)"], ["2", "1.000 (2.00)"]])


class PoolsReportTest(unittest.TestCase):
    def goal(self, text: str, results: Results | None = None) -> goals.Goal:
        found = goals.all_goals(results or support.pools_sample(), pools.WANTED)
        return next(goal for goal in found if goal.text.endswith(text))

    def test_a_ratio_is_over_the_best_malloc(self):
        goal = self.goal("1 threads, over the best malloc")
        self.assertEqual((goal.figure, goal.remark, goal.reached), (0.5, "new/delete, mimalloc", True))
        self.assertIs(self.goal("2 threads, over the best malloc").reached, False)

    def test_the_limits_of_rates_are_from_below(self):
        self.assertIs(goals.Goal("x", 0.5, 0.45, False).reached, True)
        self.assertIs(goals.Goal("x", 0.4, 0.45, False).reached, False)

    def test_the_best_rate_is_the_highest(self):
        results = Results("pools", kinds={"tarn::pool_of": "tarn", "a": "peer", "b": "peer"})
        results.runs = [support.run("slots", "2", name, 0, rate=rate) for name, rate in zip(results.kinds, (5.0, 4.0, 2.0))]
        goal = self.goal("slots, 2 threads, rate over the best peer", results)
        self.assertEqual((goal.figure, goal.remark, goal.reached), (1.25, "a", True))

    def test_what_was_not_measured_is_neither_reached_nor_missed(self):
        results = support.pools_sample()
        del results.kinds["bare thread-local array"]
        results.runs = [each for each in results.runs if each["contender"] != "bare thread-local array"]
        self.assertIsNone(self.goal("1 threads, over bare thread-local array", results).reached)

    def test_only_peers_and_mallocs_win(self):
        lines = goals.lost(support.pools_sample(), pools.SUITE.compared)
        self.assertEqual(lines, ["threads 2 ns: new/delete, mimalloc 4.00, tarn::object_pool 8.00 (2.00)"])

    def test_rows_are_sorted_and_marked(self):
        table = pools.threads_table(support.pools_sample())
        self.assertEqual(table.rows[0][0], "bare thread-local array (reference)")
        self.assertEqual(table.rows[1][:2], ["tarn::pool_of", "5.0 [4.5..5.5]"])
        self.assertTrue(table.rows[-1][1].endswith(pools.SHORTENED))


class RecyclersReportTest(unittest.TestCase):
    def test_ratios_and_verdicts(self):
        found = {goal.text: goal for goal in goals.all_goals(support.recyclers_sample(), recyclers.SUITE.wanted)}
        self.assertEqual(len(found), 5)
        self.assertIs(found["tarn::recycler: get_release, over Go sync.Pool"].reached, True)
        cross = found["tarn::recycler: cross 1 processor, over Go sync.Pool"]
        self.assertEqual((cross.figure, cross.reached), (1.25, False))
        self.assertIs(found["tarn::recycler: buffer10k, over C++, kept by hand"].reached, True)
        self.assertIs(found["tarn::recycler: buffer10k, allocations per operation"].reached, True)

    def test_without_a_peer_nothing_is_reached(self):
        results = support.recyclers_sample()
        results.runs = [each for each in results.runs if each["contender"] != "Go sync.Pool"]
        self.assertIsNone(goals.all_goals(results, recyclers.SUITE.wanted)[0].reached)
        self.assertIn("not measured", recyclers.SUITE.generated(results))

    def test_references_do_not_win(self):
        lines = goals.lost(support.recyclers_sample(), recyclers.SUITE.compared)
        self.assertEqual(lines, ["cross 1 processor ns: Go sync.Pool 20.00, tarn::recycler 25.00 (1.25)"])

    def test_tables_begin_with_the_recyclers(self):
        table = recyclers.small_table(support.recyclers_sample())
        self.assertEqual(table.header, ["contender", "get_release", "cross, 1 processor"])
        self.assertEqual(table.rows[0], ["tarn::recycler", "3.00 [2.70..3.30]", "25.00 [22.50..27.50]"])
        self.assertEqual(table.rows[-1][0], "Go, fresh (reference)")


class PairedGoalsTest(unittest.TestCase):
    """Of buffers both figures of a ratio are of one process; of the profiler, each of its own median."""

    def test_the_ratio_is_the_median_of_the_rounds(self):
        results = Results("buffers", kinds={"tarn": "tarn"})
        for number, (pool, reused) in enumerate(((1.0, 2.0), (20.0, 10.0), (3.0, 3.0))):
            figures = {"pool us": pool, "reused us": reused, "pool faults": 0, "malloc us": 1.0}
            results.runs.append(support.run("loops", "8 MiB", "tarn", number, **figures))
            results.runs.append(support.run("loops", "1 MiB", "tarn", number, **figures))
        found = {goal.text: goal for goal in goals.all_goals(results, buffers.WANTED)}
        self.assertEqual(found["8 MiB: pool over writing one reused buffer"].figure, 1.0)
        self.assertIs(found["8 MiB: page faults of the pool after the first round"].reached, True)
        self.assertEqual(len(found), 4, "1 MiB has no goals")
        self.assertIs(buffers.SUITE.missed(results), False)
        results.runs[0]["figures"]["pool us"] = 9.0
        self.assertIs(buffers.SUITE.missed(results), True)
        results.protocol["quick"] = True
        self.assertIs(buffers.SUITE.missed(results), False)

    def test_churn_has_an_aim_of_its_own(self):
        results = Results("profiler", kinds={"bare": "reference", "sample": "tarn", "full": "tarn"})
        for cell in ("churn", "sqlite3"):
            for name, cpu in zip(results.kinds, (2.0, 2.2, 2.4)):
                results.runs.append(support.run("program", cell, name, 0, cpu=cpu))
        found = {goal.text.partition(", over")[0]: goal.reached for goal in goals.all_goals(results, profiler.SUITE.wanted)}
        self.assertEqual(found, {"sqlite3, sample": False, "sqlite3, full": True, "churn, sample": True})
        self.assertEqual(profiler.tables(results)[0].rows[0], ["churn", "2.00", "1.10 (1.10–1.10)", "1.20 (1.20–1.20)"])


class MarkdownTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "page.md"

    def test_only_the_part_between_the_markers_changes(self):
        earlier = "<!-- results: begin (written by another program; do not edit) -->"
        content = malloc.SUITE.generated(support.malloc_sample())
        for begin in (markdown.BEGIN, earlier):
            self.path.write_text(f"# Before\n\n{begin}\nold\n{markdown.END}\n\nAfter\n")
            markdown.replace_block(self.path, content)
            text = self.path.read_text()
            self.assertTrue(text.startswith(f"# Before\n\n{markdown.BEGIN}\n"))
            self.assertTrue(text.endswith(f"{markdown.END}\n\nAfter\n"))
            self.assertNotIn("old", text)
            self.assertIn("| a | 0.80* | 1.00 | 2.00 | 0.84 |", text)
            markdown.replace_block(self.path, content)
            self.assertEqual(self.path.read_text(), text)
        self.assertIn("### What has to be reached", pools.SUITE.generated(support.pools_sample()))

    def test_only_contenders_that_were_measured_are_named(self):
        results = support.malloc_sample()
        results.versions = {"tarn": "", "one": "7", "two": "8", "installed, not chosen": "9"}
        self.assertIn("\n\nContenders: tarn, one 7, two 8.\n\n", malloc.SUITE.generated(results))

    def test_damaged_markers_are_refused_and_the_file_stays(self):
        self.path.write_text(f"text\n{markdown.END}\n")
        with self.assertRaises(ValueError):
            markdown.replace_block(self.path, "content")
        self.assertEqual(self.path.read_text(), f"text\n{markdown.END}\n")


if __name__ == "__main__":
    unittest.main()
