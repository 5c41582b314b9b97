// SPDX-License-Identifier: MIT
// site_rows: the rows of the report's table of sites, before rounding: the named sites, sums of the others by place
// and type, and one row for everything outside of sites. Pure functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "profiler/model/figure_columns.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/report/path_tree.hpp"
#include "profiler/report/string_table.hpp"

namespace tarn::profiler {

// Invalid figures (negative, NaN, or beyond what a page's numbers hold exactly) count as 0.
inline double sane_figure(double value) noexcept { return value > 0 && value < 9e15 ? value : 0; }

// Rounds real figures to whole numbers whose sum is the rounded sum of the figures. Rounded
// independently, thousands of rows would miss their total by thousands. Invariant: sum of the values == round(sum
// of what was added); each value differs by at most 1 from its figure.
class whole_column {
 public:
  void add(double value) {
    exact_ += sane_figure(value);
    const std::int64_t until_now = std::llround(exact_);
    values_.push_back(until_now - total_);
    total_ = until_now;
  }

  const std::vector<std::int64_t>& values() const noexcept { return values_; }
  std::int64_t total() const noexcept { return total_; }

 private:
  double exact_ = 0;
  std::int64_t total_ = 0;
  std::vector<std::int64_t> values_;
};

// What a row stands for: one named site, a sum of other sites, or faults outside of sites.
enum class row_kind : std::uint8_t { site, rest, outside };

// A row of the table before rounding.
struct site_row {
  row_kind kind = row_kind::site;
  std::uint32_t index = 0;                    // into profile::sites
  std::uint32_t place = path_tree::no_frame;  // number of a frame
  std::uint32_t type = 0;                     // number of a text
  double sites = 1;
  site_figures figures = {};
  cost paid = {};
  double untouched = 0;
};

// An invalid variance counts as 0.
inline double sane_variance(double value) noexcept { return value > 0 && std::isfinite(value) ? value : 0; }

// The variances of figures that are estimated from samples. Variances are squares, so they may exceed all whole
// numbers.
struct variance_column {
  const char* name;
  double (*of)(const site_figures& figures, const cost& paid);
};
inline constexpr variance_column variance_columns[] = {
    {"allocations_variance",
     [](const site_figures& figures, const cost&) { return figures.allocations_variance; }},
    {"bytes_variance", [](const site_figures& figures, const cost&) { return figures.bytes_variance; }},
    {"faults_variance", [](const site_figures& figures, const cost&) { return figures.faults_variance; }},
    {"malloc_variance",
     [](const site_figures&, const cost& paid) {
       return paid.malloc_variance + paid.malloc_bias * paid.malloc_bias;
     }},
    {"kernel_variance", [](const site_figures&, const cost& paid) { return paid.kernel_variance; }},
};

bool is_additive(const figure_column& one);

std::vector<site_row> rows_of(const profile& p, const std::vector<cost>& costs,
                              const std::vector<std::uint32_t>& named, path_tree& paths,
                              string_table& strings, std::size_t most_places);

}  // namespace tarn::profiler
