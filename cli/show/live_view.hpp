// SPDX-License-Identifier: MIT
// live_view: what `tarn top` shows of a running program: figures per second, computed from two snapshots, and the
// costliest places. All times are shares of one processor's time. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/show/live_figures.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Activity of the whole program between two snapshots, and its state at the second one.
struct live_rates {
  double malloc_share = 0;  // in malloc and free
  double hidden_share = 0;  // in page faults and giving memory back
  double cpu_share = 0;
  double faults = 0;       // per second
  double allocations = 0;  // per second
  double resident_bytes = 0;
  double live_bytes = 0;
  double untouched_bytes = 0;  // live bytes that are not resident, as far as residency was checked
  std::optional<double> resident_growth = {};  // bytes per minute, as the next
  std::optional<double> live_growth = {};

  double cost_share() const { return malloc_share + hidden_share; }
};

struct live_place {
  profiler::source_frame frame;
  std::string type;
  std::string suggestion;  // "buffer pool"; empty: leave the place alone
  double cost_share = 0;
  double hidden_share = 0;
  double faults = 0;  // per second, as the next two
  double allocations = 0;
  double bytes = 0;
  double live_bytes = 0;
  std::optional<double> growth;  // of live_bytes, per minute

  bool is_busy() const;  // a figure of it is large enough to be seen
};

enum class live_order : std::uint8_t { cost, hidden, faults, allocations, bytes, live, growth };

// What the growth is measured from.
struct live_growth {
  growth_log sites;  // live bytes by index
  growth_log resident;
  void add(const profiler::profile& p);
};

live_rates rates_between(const profiler::profile& before, const profiler::profile& after,
                         const live_growth& growth);
// Requires: `after` is a later snapshot of the same program, so that its first sites are those of `before`.
std::vector<live_place> places_between(const profiler::profile& before, const profiler::profile& after,
                                       live_order order, const live_growth& growth);

// The two header lines of the view. What does not fit into `width` columns is left out, the least important first.
std::string render_rates(const live_rates& rates, std::size_t width, bool colour);
// A heading and at most `most` lines of places; those with nothing to show are counted only. Names come first. Figures that do
// not fit are left out, except the one that the places are sorted by.
std::string render_places(const std::vector<live_place>& places, std::size_t most, live_order order,
                          std::size_t width, bool colour);
// Rows for output that is not a terminal, or, if `width` is not 0, for one of so many columns.
std::string live_row_heading(std::size_t width);
std::string live_row(double at_seconds, const live_rates& rates, const std::vector<live_place>& places,
                     std::size_t width);
nlohmann::json as_json(double at_seconds, const live_rates& rates, const std::vector<live_place>& places);

}  // namespace tarn::cli
