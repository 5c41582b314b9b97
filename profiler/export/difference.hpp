// SPDX-License-Identifier: MIT
// difference: what changed between one or several recordings of a program and others, in total and by site, how
// certain that is, and whether it exceeds limits. Sites are equal if the functions of their call paths and their
// types are equal; lines and addresses may differ.
//
// All costs use the prices of the first recording, and times in malloc one calibration (malloc_calibration) and one
// price of a call at each place (call_prices). Each change has a 95 % interval, derived from how much the recordings of
// a side differ (Student's t, one variance for both sides), but never narrower than sampling within the recordings
// implies. The intervals of sites are wider: those of all sites with at least 1 % of the total hold jointly with 95 %
// (Bonferroni).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analyze/places.hpp"
#include "profiler/export/block_list.hpp"
#include "profiler/export/call_prices.hpp"
#include "profiler/export/malloc_calibration.hpp"
#include "profiler/export/metrics.hpp"
#include "profiler/export/path_identity.hpp"
#include "profiler/format/quantiles.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct change {
  double before = 0;  // means over the recordings
  double after = 0;
  double margin = 0;  // half the width of the interval around amount(); 0: exact
  double amount() const noexcept { return after - before; }
  // Whether the interval excludes 0.
  bool is_significant() const noexcept { return amount() > margin || amount() < -margin; }
  // Relative change: 0.05 is 5 % more; infinite if there was nothing before; 0 if there is nothing on either side.
  double share() const noexcept;
  // Half the width of the interval in percent of `before`: "exact", "± 2.4 %", "± >100 %"; "" if there was nothing
  // before.
  std::string margin_text() const;
};

struct site_change {
  std::uint32_t place = 0;                  // of difference::places
  std::uint32_t type = 0;                   // of difference::types
  std::uint32_t callers = 0;                // of difference::callers
  std::array<change, metric_count> values;  // in the order of metrics()
};

// With a single recording on each side, costs are assumed to have this relative standard deviation from run to run.
inline constexpr double usual_spread_of_time = 0.05;
struct difference {
  std::array<change, metric_count> totals;  // in the order of metrics()
  // For a change of each total by small_change (recordings_to_find); 0: too many, or there was nothing before.
  std::array<std::size_t, metric_count> recordings_needed = {};
  // What a call took, in mode sample and where there are three recordings and more; before = 0: not known. Its margin
  // is of price_confidence. has_one_price: the times of all recordings rest on the same price at each place.
  change call_price;
  bool has_one_price = false;
  std::size_t recordings_needed_for_price = 0;
  block_list<site_change> sites;     // there may be a million
  std::vector<source_frame> places;  // of sites: site_label
  std::vector<std::string> types;
  std::vector<std::string> callers;  // of the place, at most three: "parse < load"; empty if there are none
  std::size_t recordings_before = 0;
  std::size_t recordings_after = 0;

  const source_frame& place_of(const site_change& one) const { return places[one.place]; }
  const std::string& callers_of(const site_change& one) const { return callers[one.callers]; }
  const std::string& type_of(const site_change& one) const { return types[one.type]; }

  static difference between(const profile& before, const profile& after);
};

// Adds up one recording after the other; keeps about 300 bytes for each distinct site.
class difference_builder {
 public:
  enum class side : std::uint8_t { before, after };

  // The numbers of recordings that will be added on each side, at least one each.
  difference_builder(std::size_t before, std::size_t after);

  // For all recordings before the first add(): only the times in malloc of those that were added here become
  // comparable.
  void add_times(side which, const profile& p);
  // Changes the prices of `p` to those of the first recording, and its times in malloc.
  void add(side which, profile& p);
  // Requires that all recordings were added; the builder is empty then.
  difference take();

  struct one_value {
    double value = 0;
    double variance = 0;  // of the sampling
  };
  using column_values = std::array<one_value, metric_count>;  // in the order of metrics()

 private:
  using squares = std::array<double, metric_count>;
  struct known_site {
    path_identity identity;
    std::uint32_t row = 0;  // of changes_.sites
  };

  void add_values(std::array<change, metric_count>& to, squares* squared, side which,
                  const column_values& values) const;
  // The row of a site; a new one where it is met for the first time.
  std::uint32_t row_of(const path_identity& identity, const metric_row& row, const profile& p);
  // Makes the times in malloc those of its numbers of calls, each at the price that all recordings have. Returns the
  // variance of their sum; below 0: the recording keeps its own.
  double use_common_prices(profile& p);
  void take_call_price();
  bool has_one_price() const { return !calibration_.differ() && call_prices_.are_equal(); }
  bool knows_scatter() const noexcept { return recordings_[0] + recordings_[1] > 2; }
  // Returns the standard error of one recording's figure.
  double finish(change& of, const squares* squared, std::size_t metric_index, double run_bound,
                double sample_bound) const;
  std::size_t sites_that_count(std::size_t metric_index) const;

  std::size_t recordings_[2];
  malloc_calibration calibration_;
  call_prices call_prices_;
  // Sums over the recordings whose price of a call is known, of the times in malloc; `fitted`: as far as the
  // processor's time allows.
  double found_ns_ = 0;
  double fitted_ns_ = 0;
  bool has_prices_ = false;
  price_list prices_;
  name_numbers names_;
  // Until take(), `before` and `after` of a change are sums over the recordings, and `margin` is the variance of
  // the difference of the means that is due to sampling.
  difference changes_;
  block_list<squares> site_squares_;  // of changes_.sites; empty where there are two recordings
  squares total_squares_ = {};
  std::vector<known_site> known_;  // by identity
  std::vector<known_site> new_;    // of the recording that is being added
  std::map<place_key, std::uint32_t> place_rows_;
  std::map<std::string, std::uint32_t> type_rows_;
  std::map<std::string, std::uint32_t> caller_rows_;
};

// "[site.]METRIC > or < AMOUNT": AMOUNT is a change, in percent ("+5%") or in the metric's unit, for bytes with K, M,
// G, for times with ns, us, ms, s.
struct change_limit {
  std::string text;
  std::size_t metric_index = 0;  // of metrics()
  bool of_each_site = false;
  bool is_share = false;
  bool is_upper = true;
  double amount = 0;

  // Throws std::invalid_argument, which says what is wrong.
  static change_limit parse(std::string_view text);
};

// One sentence for each change beyond the limit; none if it is kept. If no change at all would keep the limit, only
// significant changes count. A site counts if the metric's value is at least 1 % of the total, before or after.
std::vector<std::string> exceeded(const difference& changes, const change_limit& limit);

}  // namespace tarn::profiler
