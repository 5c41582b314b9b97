// SPDX-License-Identifier: MIT
// live_view: what `tarn top` shows of a running program: figures per second, computed from two snapshots, and the
// costliest places. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Activity of the whole program between two snapshots, per second, and its state at the second one.
struct live_rates {
  double seconds = 0;      // between the two snapshots
  double visible_ns = 0;   // per second: in malloc and free
  double hidden_ns = 0;    // per second: in page faults and giving memory back
  double faults = 0;       // per second
  double allocations = 0;  // per second
  double cpu_ns = 0;       // per second
  double resident_bytes = 0;
  double live_bytes = 0;
  double untouched_bytes = 0;  // live bytes that are not resident, as far as residency was checked
};

struct live_place {
  std::string name;   // "function  file.cpp:12"
  std::string place;  // "file:line function", as in advice
  std::string type;
  std::string suggestion;  // "buffer pool"; empty: leave the place alone
  double total_ns = 0;     // per second, as the next four
  double hidden_ns = 0;
  double faults = 0;
  double allocations = 0;
  double bytes = 0;
  double live_bytes = 0;
};

enum class live_order : std::uint8_t { cost, hidden, faults, allocations, bytes, live };

live_rates rates_between(const profiler::profile& before, const profiler::profile& after);
enum class live_figure : std::uint8_t {
  total,
  growth
};  // of live_bytes: at `after`, or what it has more than `before`

// Requires: `after` is a later snapshot of the same program, so that its first sites are those of `before`.
std::vector<live_place> places_between(const profiler::profile& before, const profiler::profile& after,
                                       live_order order, live_figure live = live_figure::total);

// The two header lines of the view. What does not fit into `width` columns is left out, the least important first.
std::string render_rates(const live_rates& rates, std::size_t width, bool colour);
// A heading and at most `most` places; names come first. Figures that do not fit are left out, except the one that
// the places are sorted by.
std::string render_places(const std::vector<live_place>& places, std::size_t most, live_order order,
                          std::size_t width, bool colour);
// Rows for output that is not a terminal.
std::string live_row_heading();
std::string live_row(double at_seconds, const live_rates& rates, const std::vector<live_place>& places);
nlohmann::json as_json(double at_seconds, const live_rates& rates, const std::vector<live_place>& places);

}  // namespace tarn::cli
