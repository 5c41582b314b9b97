// SPDX-License-Identifier: MIT
// table_rows: the columns of a profile's tables, each with the member that it stores: one list for the writer and the
// reader. A file may contain any bytes, so what the reader takes is in the range of its member.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "profiler/format/table_file.hpp"
#include "profiler/model/figure_columns.hpp"
#include "profiler/model/memory_split.hpp"
#include "profiler/model/profile.hpp"

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

// columns_of(row, visit) calls visit(name, member) for each column of the row's type; of reals that are not figures,
// visit(name, member, sane). The null pointer only names the type.

template <class Visit>
void columns_of(const module_info*, Visit visit) {
  visit("path", &module_info::path);
  visit("build_id", &module_info::build_id);
  visit("start", &module_info::start);
  visit("end", &module_info::end);
  visit("file_offset", &module_info::file_offset);
}

template <class Visit>
void columns_of(const thread_info*, Visit visit) {  // and "process"
  visit("id", &thread_info::id);
  visit("name", &thread_info::name);
  visit("start_ns", &thread_info::start_ns);
  visit("end_ns", &thread_info::end_ns);
}

template <class Visit>
void columns_of(const source_frame*, Visit visit) {
  visit("function", &source_frame::function);
  visit("file", &source_frame::file);
  visit("line", &source_frame::line);
  visit("inlined", &source_frame::inlined);
}

template <class Visit>
void columns_of(const site_figures*, Visit visit) {
  for (const figure_column& each : figure_columns)
    visit(each.name, each.member, is_variance(each) ? variance_of : figure_of);
}

template <class Visit>
void columns_of(const size_count*, Visit visit) {
  visit("size", &size_count::size);
  visit("count", &size_count::count);
  visit("exact", &size_count::exact);
}

template <class Visit>
void columns_of(const lifetime_count*, Visit visit) {
  visit("lifetime", &lifetime_count::lifetime);
  visit("size", &lifetime_count::size);
  visit("count", &lifetime_count::count);
  visit("bytes", &lifetime_count::bytes);
}

template <class Visit>
void columns_of(const thread_pair*, Visit visit) {
  visit("from", &thread_pair::from);
  visit("to", &thread_pair::to);
  visit("count", &thread_pair::count);
  visit("bytes", &thread_pair::bytes);
}

template <class Visit>
void columns_of(const counter_row*, Visit visit) {
  visit("time_ns", &counter_row::time_ns);
  for (const counter_column& each : counter_columns) visit(each.name, each.member);
}

template <class Visit>
void columns_of(const memory_row*, Visit visit) {
  visit("time_ns", &memory_row::time_ns);
  for (const memory_column& each : memory_columns) visit(each.name, each.member);
}

template <class Visit>
void columns_of(const memory_part*, Visit visit) {
  visit("time_ns", &memory_part::time_ns);
  visit("kind", &memory_part::kind);
  visit("name", &memory_part::name);
  visit("site", &memory_part::site);
  visit("bytes", &memory_part::bytes);
  visit("variance", &memory_part::variance, variance_of);
}

// The members of JSON objects in the table "meta".

template <class Visit>
void columns_of(const price_list*, Visit visit) {
  visit("fault", &price_list::fault);
  visit("huge_fault", &price_list::huge_fault);
  visit("costly_fault", &price_list::costly_fault);
  visit("unmap_page", &price_list::unmap_page);
  visit("zero_page", &price_list::zero_page);
  visit("malloc_pair", &price_list::malloc_pair);
  visit("timed_call", &price_list::timed_call);
}

template <class Visit>
void columns_of(const malloc_time*, Visit visit) {
  visit("clock_part", &malloc_time::clock_part);
  visit("factor", &malloc_time::factor);
  visit("clock_error", &malloc_time::clock_error);
  visit("systematic_error", &malloc_time::systematic_error);
  visit("ns", &malloc_time::ns);
  visit("small_ns", &malloc_time::small_ns);
  visit("samples", &malloc_time::samples);
  visit("in_malloc", &malloc_time::in_malloc);
  visit("in_recorder", &malloc_time::in_recorder);
  visit("clock_ns", &malloc_time::clock_ns);
}

// The columns of a row as the members of an object.
template <class Row>
nlohmann::json as_json(const Row& row) {
  nlohmann::json object;
  columns_of(&row, [&](const char* name, auto member, auto...) { object[name] = row.*member; });
  return object;
}

template <class Row>
nlohmann::json as_json(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back(as_json(row));
  return list;
}

inline table new_table(const char* name, std::size_t rows, bool replaces) {
  return {.name = name, .rows = rows, .replaces = replaces};
}

// Adds a column with value(row) for the rows [first, first + rows).
template <class Values, class Value>
void add_column(table& into, const char* name, std::size_t first, Value value) {
  Values values;
  values.reserve(into.rows);
  for (std::size_t row = first; row < first + into.rows; ++row) {
    values.push_back(static_cast<typename Values::value_type>(value(row)));
  }
  into.columns.push_back({name, std::move(values)});
}

// Adds the columns of Row; at(row) is the row to store.
template <class Row, class At>
void add_columns(table& into, std::size_t first, At at) {
  columns_of(static_cast<const Row*>(nullptr), [&](const char* name, auto member, auto...) {
    using value_type = std::remove_cvref_t<decltype(std::declval<Row>().*member)>;
    using values_type =
        std::conditional_t<std::is_same_v<value_type, std::string>, texts,
                           std::conditional_t<std::is_same_v<value_type, double>, reals, integers>>;
    add_column<values_type>(into, name, first, [&](std::size_t row) { return at(row).*member; });
  });
}

// Sets the members of at(row) to the row's values. Throws profile_error if a column is missing that is not of reals.
template <class Row, class At>
void read_columns(table& rows, At at) {
  columns_of(static_cast<const Row*>(nullptr), [&](const char* name, auto member, auto... sane) {
    using value_type = std::remove_cvref_t<decltype(std::declval<Row>().*member)>;
    if constexpr (std::is_same_v<value_type, double>) {
      const reals values = take_figures(rows, name, sane...);
      for (std::size_t row = 0; row < rows.rows; ++row) at(row).*member = values[row];
    } else if constexpr (std::is_same_v<value_type, std::string>) {
      const texts& values = rows.text(name);
      for (std::size_t row = 0; row < rows.rows; ++row) at(row).*member = values[row];
    } else {
      constexpr std::uint64_t most = std::numeric_limits<value_type>::max();
      const integers& values = rows.whole(name);
      for (std::size_t row = 0; row < rows.rows; ++row)
        at(row).*member = static_cast<value_type>(std::min<std::uint64_t>(values[row], most));
    }
  });
}

}  // namespace tarn::profiler
