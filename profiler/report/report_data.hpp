// SPDX-License-Identifier: MIT
// report_data: a profile as the data of the report's page: compact JSON of bounded size, each text stored once,
// call paths as a tree. Reads no file, except source files if their lines are wanted. Any thread.
//
// Totals agree: sites that are not named are rows, too, summed by place ("rest"), and so are page faults outside of
// malloc's blocks ("outside"). The whole numbers of a column add up exactly to the column's total; those of the
// cost to cost_of_all(). The page adds up rows, and computes no cost of its own.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/export/event_rows.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/report/site_choice.hpp"

namespace tarn::profiler {

struct report_limits {
  choice_limits sites;
  std::size_t most_places = 5000;      // rows that sum up the unnamed sites
  std::size_t most_counters = 4000;    // rows of the timeline; more are thinned, peaks kept
  std::size_t most_threads = 31;       // the busiest threads, which are named
  std::size_t most_site_rows = 64;     // of one site's sizes, lifetimes, thread pairs
  std::size_t most_detailed = 4000;    // sites with such rows, the costliest ones
  std::size_t most_memory_parts = 20;  // of one kind of resident memory
  std::size_t most_source_bytes = 0;   // source lines around each place, from files of this system; 0: none
};

// `actions` is the result of advise(). Members: docs/reference/report.md. Cost: proportional to the profile's size; the JSON
// is about a tenth of it.
nlohmann::json report_data(const profile& p, const std::vector<advice>& actions,
                           const report_limits& limits = {}, const event_slices& slices = {});

}  // namespace tarn::profiler
