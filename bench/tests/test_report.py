# SPDX-License-Identifier: MIT
"""Results, tables and the generated part of a Markdown file."""

import tempfile
import unittest
from pathlib import Path

import support
from report import markdown, results as result_files, tables


class ResultsTest(unittest.TestCase):
    def test_the_grid_holds_medians(self):
        grid = support.sample().grid("seconds")
        self.assertAlmostEqual(grid["a"]["tarn"], 0.8)
        self.assertAlmostEqual(grid["b"]["one"], 1.2)

    def test_a_failed_cell_has_no_figure_even_if_an_earlier_round_did(self):
        results = support.sample()
        results.failures.append({"row": "a", "contender": "one", "round": 2, "reason": "crashed"})
        self.assertNotIn("one", results.grid("seconds")["a"])
        self.assertIn("one", results.grid("seconds")["b"])

    def test_saved_results_come_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "deep" / "results.json"
            support.sample().save(path)
            self.assertEqual(result_files.load(path), support.sample())

    def test_foreign_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "other.json"
            for content in ("[]", '{"format": 99}', '{"format": 1, "unknown": 0}', "no json"):
                path.write_text(content)
                with self.assertRaises(ValueError, msg=content):
                    result_files.load(path)


class TablesTest(unittest.TestCase):
    def row(self, table: tables.Table, name: str) -> list[str]:
        return next(line for line in table.rows if line[0] == name)

    def test_time_ratios_are_over_the_best_peer_and_name_lost_rows(self):
        table = tables.time_table(support.sample())
        self.assertEqual(self.row(table, "a")[1:4], ["0.80*", "1.00", "2.00"])
        self.assertEqual(self.row(table, "b")[1:4], ["1.50", "1.20", "1.00*"])
        self.assertEqual(self.row(table, "geomean, all")[1], "1.095")
        self.assertEqual(self.row(table, "geomean, real programs")[1], "1.500")
        self.assertEqual(self.row(table, "rows won")[1:4], ["1", "0", "1"])
        self.assertTrue(any("b 1.50 (two, above 1.10)" in remark for remark in table.remarks), table.remarks)

    def test_memory_ratios_are_over_the_leanest_including_the_subject(self):
        table = tables.rss_table(support.sample())
        self.assertEqual(self.row(table, "a")[1:4], ["1.10", "1.00*", "2.00"])
        self.assertEqual(self.row(table, "b")[1:4], ["1.00*", "1.20", "2.00"])

    def test_the_twin_shows_noise_and_is_no_peer(self):
        results = support.sample()
        self.assertEqual(results.peers(), ["one", "two"])
        noise = tables.noise_table(results)
        self.assertEqual(self.row(noise, "time"), ["time", "1.025", "1.050", "a"])

    def test_failures_and_notices_are_shown(self):
        results = support.sample()
        results.notices.append("row gs left out: not installed")
        results.failures.append(
            {"row": "a", "contender": "one", "round": 0, "reason": "ended with signal 11"}
        )
        text = "\n".join(tables.summary(results))
        self.assertIn("row gs left out", text)
        self.assertIn("FAILED: a under one, round 1: ended with signal 11", text)

    def test_text_columns_line_up(self):
        lines = tables.time_table(support.sample()).text().splitlines()
        ends = {len(line) for line in lines[2:3] + lines[4:6]}
        self.assertLessEqual(max(ends), len(lines[1]))

    def test_nothing_measured_gives_no_table(self):
        self.assertEqual(tables.all_tables(result_files.Results()), [])

    def test_scaling_shows_the_gain_over_one_thread(self):
        results = support.sample()
        results.scaling = [support.run("ring@1", "one", 0, 2.0, 1), support.run("ring@2", "one", 0, 1.0, 1)]
        table = tables.scaling_tables(results)[0]
        self.assertEqual(table.rows, [["1", "2.000 (1.00)"], ["2", "1.000 (2.00)"]])


class MarkdownTest(unittest.TestCase):
    def test_only_the_part_between_the_markers_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text(f"# Before\n\n{markdown.BEGIN}\nold\n{markdown.END}\n\nAfter\n")
            markdown.update(path, support.sample())
            text = path.read_text()
            self.assertTrue(text.startswith("# Before\n"))
            self.assertTrue(text.endswith("\n\nAfter\n"))
            self.assertNotIn("old", text)
            self.assertIn("| a | 0.80* | 1.00 | 2.00 | 0.84 |", text)
            markdown.update(path, support.sample())
            self.assertEqual(path.read_text(), text)

    def test_damaged_markers_are_refused_and_the_file_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text(f"text\n{markdown.END}\n")
            with self.assertRaises(ValueError):
                markdown.update(path, support.sample())
            self.assertEqual(path.read_text(), f"text\n{markdown.END}\n")


if __name__ == "__main__":
    unittest.main()
