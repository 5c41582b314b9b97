# SPDX-License-Identifier: MIT
"""Medians, means and ratios, and who counts as the best of a row."""

import unittest

import support  # noqa: F401  (sets the path)
from report import statistics

GRID = {"a": {"tarn": 0.8, "one": 1.0, "two": 2.0}, "b": {"tarn": 3.0, "one": 4.0, "two": 2.0}}


class Statistics(unittest.TestCase):
    def test_geometric_mean(self):
        self.assertAlmostEqual(statistics.geometric_mean([1.0, 4.0]), 2.0)
        self.assertAlmostEqual(statistics.geometric_mean([0.5, 2.0, 8.0]), 2.0)
        self.assertIsNone(statistics.geometric_mean([]))

    def test_spread_is_half_the_range_over_the_median(self):
        self.assertAlmostEqual(statistics.spread([0.9, 1.0, 1.3]), 0.2)
        self.assertEqual(statistics.spread([2.0]), 0.0)

    def test_ratios_are_over_the_best_peer_so_the_subject_may_be_below_one(self):
        ratios = statistics.ratios_to_best(GRID, ["one", "two"])
        self.assertAlmostEqual(ratios["a"]["tarn"], 0.8)
        self.assertAlmostEqual(ratios["a"]["two"], 2.0)
        self.assertAlmostEqual(ratios["b"]["tarn"], 1.5)
        self.assertAlmostEqual(ratios["b"]["one"], 2.0)

    def test_ratios_over_the_leanest_include_the_subject(self):
        ratios = statistics.ratios_to_best(GRID, ["tarn", "one", "two"])
        self.assertAlmostEqual(ratios["a"]["tarn"], 1.0)
        self.assertAlmostEqual(ratios["a"]["one"], 1.25)

    def test_rows_without_any_reference_are_left_out(self):
        self.assertEqual(statistics.ratios_to_best({"a": {"tarn": 1.0}}, ["one"]), {})

    def test_a_missing_cell_takes_part_in_nothing(self):
        ratios = statistics.ratios_to_best({"a": {"tarn": 2.0, "one": 1.0}, "b": {"one": 1.0}}, ["one", "two"])
        self.assertAlmostEqual(statistics.mean_of_column(ratios, "tarn"), 2.0)
        self.assertIsNone(statistics.mean_of_column(ratios, "two"))

    def test_mean_over_some_rows(self):
        ratios = statistics.ratios_to_best(GRID, ["one", "two"])
        self.assertAlmostEqual(statistics.mean_of_column(ratios, "tarn"), (0.8 * 1.5) ** 0.5)
        self.assertAlmostEqual(statistics.mean_of_column(ratios, "tarn", ["b"]), 1.5)

    def test_worst_row(self):
        ratios = statistics.ratios_to_best(GRID, ["one", "two"])
        self.assertEqual(statistics.worst_row(ratios, "tarn")[0], "b")
        self.assertIsNone(statistics.worst_row(ratios, "nobody"))

    def test_rows_won(self):
        self.assertEqual(statistics.rows_won(GRID, "tarn", ["tarn", "one", "two"]), 1)
        self.assertEqual(statistics.rows_won(GRID, "one", ["tarn", "one", "two"]), 0)
        self.assertEqual(statistics.rows_won({"a": {"one": 1.0, "two": 1.0}}, "two", ["one", "two"]), 1)

    def test_twin_noise_reports_the_largest_ratio_either_way(self):
        grid = {"a": {"x": 1.0, "x again": 1.1}, "b": {"x": 2.0, "x again": 1.0}, "c": {"x": 1.0}}
        mean, largest, row = statistics.twin_noise(grid, "x", "x again")
        self.assertAlmostEqual(mean, (1.1 * 0.5) ** 0.5)
        self.assertAlmostEqual(largest, 2.0)
        self.assertEqual(row, "b")
        self.assertIsNone(statistics.twin_noise({"a": {"x": 1.0}}, "x", "x again"))


if __name__ == "__main__":
    unittest.main()
