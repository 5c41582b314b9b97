// SPDX-License-Identifier: MIT
// sane_figures: figures from a profile's file, whose bytes may be anything.
#pragma once

#include <string_view>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

// Of a figure: sums over all rows, and products with times and sizes, stay numbers that integers of 64 bits can hold.
inline constexpr double most_figure = 1e15;

// Zero for what is no number, negative, or beyond all that can be counted.
inline double figure_of(double value) { return value >= 0 && value <= most_figure ? value : 0; }

// Reals of a column that an older version may not have, or zeros.
inline reals figures_in(const table& rows, std::string_view name) {
  reals values = rows.has(name) ? rows.real(name) : reals(rows.rows);
  for (double& value : values) value = figure_of(value);
  return values;
}

}  // namespace tarn::profiler
