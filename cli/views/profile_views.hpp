// SPDX-License-Identifier: MIT
// profile_views: the views of a profile that `tarn show` has. Each prints to standard output and returns the exit code.
// Failures are cli_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// What was asked for; a view reads what concerns it.
struct view_request {
  std::string path;
  std::string process;              // of a merged profile; empty: all
  std::string metric;               // empty: what the profile is about
  std::string filter;               // in the function, the file or the type
  std::optional<std::size_t> rows;  // 0: all; none: as the view likes
  double least_percent = 1;
  std::size_t depth = 0;  // 0: any
  std::string at = "peak";
  std::vector<std::string> suppressions;
  bool inverted = false;
  bool over_time = false;
  bool reachable = false;
  bool full_names = false;
  bool json = false;

  // Throws cli_error if the profile has no such figures.
  const profiler::metric& metric_for(const profiler::profile& p) const;
  // The number of rows to show, at most SIZE_MAX.
  std::size_t most_rows(std::size_t usual) const {
    return rows.value_or(usual) == 0 ? SIZE_MAX : rows.value_or(usual);
  }
};

int show_sites(const view_request& asked);
// The call paths as a tree.
int show_tree(const view_request& asked);
// What the resident memory of the process consisted of.
int show_resident(const view_request& asked);
// The blocks that were not freed, and which of them were unreachable: then the code is 1.
int show_leaks(const view_request& asked);
// Which sites' live blocks keep memory resident that malloc could otherwise give back, at the last reading of the
// profile; and what would help where the figures say so.
int show_pinned(const view_request& asked);

}  // namespace tarn::cli
