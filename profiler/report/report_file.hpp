// SPDX-License-Identifier: MIT
// report_file: the report as one HTML file: the page, which is built from page/ beforehand and embedded in this
// library, with a profile's data inserted. Reads no file, except source files if their lines are wanted. Any
// thread.
//
// Safe by construction: the data is in an element that no browser executes, with every "<" escaped; the page
// inserts it as text nodes only; and the page's Content-Security-Policy allows only its own scripts, by hash, and
// no network.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/export/event_rows.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// The report's page without data, bundle/report.html, embedded in this library by the build. It
// contains @TITLE@ before @DATA@, each once.
std::string_view report_page();

struct report_file {
  std::string html;
  std::size_t named_sites = 0;  // sites shown one by one; the others are summed up
  std::size_t all_sites = 0;
};

// What the terminal says of a profile, for the page's first screen. Lines; in a line, a tab after each figure that stands in a
// column of its own.
struct report_summary {
  std::string problem;
  std::string next;
};

struct report_settings {
  std::function<report_summary(const profile&, const std::vector<advice>& actions)> summary =
      {};                       // none: the page begins with its own figures
  nlohmann::json changes = {};  // difference_data(): the page shows it; null: none
  event_slices slices = {};     // of the profile's file; empty: it has no events
  std::size_t most_bytes = std::size_t{16}
                           << 20;     // of the data; fewer sites are named where it would be larger
  std::size_t most_source_bytes = 0;  // of source lines from files of this system
  std::size_t most_processes = 40;    // processes shown one by one; together they may take as much data again
};

report_file render_report(const profile& p, const std::vector<advice>& actions,
                          const report_settings& settings = {});

// All processes of a merged profile as one program, and, selectable in the page, each of the costliest processes by
// itself. `parts`: from load_parts.
report_file render_report_of_processes(profile parts, const report_settings& settings = {});

// Whether a file begins like a report, so that it may be overwritten.
bool begins_like_report(std::string_view text);

}  // namespace tarn::profiler
