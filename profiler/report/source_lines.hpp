// SPDX-License-Identifier: MIT
// source_lines: the source lines around each place that a report shows, from files of the system that makes the
// report. What cannot be read is left out. Only regular files whose name looks like that of a source file are
// opened, as a profile may come from somebody else and name any file.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace tarn::profiler {

struct source_limits {
  std::size_t lines_around = 3;  // before and after
  std::size_t most_line_bytes = 200;
  std::size_t most_bytes = std::size_t{256} << 10;  // of all lines
  std::size_t most_file_bytes = std::size_t{8} << 20;
};

// For the members `sites`, `frames` and `strings` of a report's data: {"FRAME": [number of the first line,
// line...]} for the places of the sites, in their order, as long as there is room.
nlohmann::json source_lines(const nlohmann::json& report, const source_limits& limits = {});

}  // namespace tarn::profiler
