// SPDX-License-Identifier: MIT
// source_lines: the source lines around each place that a report shows, read from the file system of the machine that
// makes the report. What cannot be read is left out. A profile may come from somebody else and name any file, so only
// regular files with the name of a source file are opened.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace tarn::profiler {

struct source_limits {
  std::size_t lines_around = 8;  // before and after
  std::size_t most_line_bytes = 200;
  std::size_t most_bytes = std::size_t{256} << 10;     // of all lines together
  std::size_t most_file_bytes = std::size_t{8} << 20;  // larger files are left out
};

// Requires the members `sites`, `frames` and `strings` of a report's data. The result: {"FRAME": [number of the first
// line, line...]}, where FRAME is a site's `place`, an index into `frames`. Sites are taken in their order until
// most_bytes is reached.
nlohmann::json source_lines(const nlohmann::json& report, const source_limits& limits = {});

}  // namespace tarn::profiler
