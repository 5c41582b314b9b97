// SPDX-License-Identifier: MIT
// report_data: a profile as the report's page reads it: compact JSON, texts once each, call paths as a tree, bounded.
// Reads no file, except source files where lines of them are wanted. Any thread.
//
// Totals agree: the sites that are not named are rows too, summed by place ("rest"), and so are page faults outside of
// malloc's blocks ("outside"); the whole numbers of a column sum to the column's total exactly; those of
// the cost are cost_of_all(). The page adds up rows and computes no cost of its own.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/report/site_choice.hpp"

namespace tarn::profiler {

struct report_limits {
  choice_limits sites;
  std::size_t most_places = 5000;      // that sum up the sites not named
  std::size_t most_counters = 4000;    // rows of the timeline; more are thinned, peaks kept
  std::size_t most_threads = 31;       // named one by one, the busiest
  std::size_t most_site_rows = 64;     // of one site's sizes, lifetimes, thread pairs
  std::size_t most_detailed = 4000;    // sites with such rows, the dearest
  std::size_t most_memory_parts = 20;  // of one kind of resident memory
  std::size_t most_source_bytes = 0;   // of the lines around each place, from files of this system
};

// `actions` is what advise() gave. Members: docs/report.md. Cost: the profile's size; the page's JSON is about a tenth of it.
nlohmann::json report_data(const profile& p, const std::vector<advice>& actions,
                           const report_limits& limits = {});

}  // namespace tarn::profiler
