// SPDX-License-Identifier: MIT
// sane_figures: validates figures from a profile's file, which may contain any bytes.
#pragma once

#include <string_view>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

// Largest figure: sums over all rows, and products with times and sizes, then still fit into 64-bit integers.
inline constexpr double most_figure = 1e15;

// 0 for NaN, negative values and values above most_figure.
inline double figure_of(double value) { return value >= 0 && value <= most_figure ? value : 0; }

// A variance is a square, and is not converted to an integer.
inline double variance_of(double value) {
  return value >= 0 && value <= most_figure * most_figure ? value : 0;
}

// Moves the values of a column out of the table, as there may be many; zeros if the file of an older version does
// not have the column. `sane`: figure_of or variance_of.
inline reals take_figures(table& rows, std::string_view name, double (*sane)(double) = figure_of) {
  reals values = rows.has(name) ? rows.take_real(name) : reals(rows.rows);
  for (double& value : values) value = sane(value);
  return values;
}

}  // namespace tarn::profiler
