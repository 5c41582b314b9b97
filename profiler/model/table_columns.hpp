// SPDX-License-Identifier: MIT
// table_columns: makes the columns of a table from a function of the row.
#pragma once

#include <cstddef>
#include <utility>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

inline table new_table(const char* name, std::size_t rows, bool replaces) {
  table result;
  result.name = name;
  result.rows = rows;
  result.replaces = replaces;
  return result;
}

// Adds a column with value(row) for the rows [first, first + rows).
template <typename Values, typename Value>
void add_column(table& into, const char* name, std::size_t first, Value value) {
  Values values;
  values.reserve(into.rows);
  for (std::size_t row = first; row < first + into.rows; ++row) {
    values.push_back(static_cast<typename Values::value_type>(value(row)));
  }
  into.columns.push_back({name, std::move(values)});
}

}  // namespace tarn::profiler
