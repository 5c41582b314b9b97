// SPDX-License-Identifier: MIT
// exit_statistics: what libtarn wrote at the exit of each process of a run (TARN_STATS=FILE).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tarn::cli {

// Sums over the processes that reported.
struct exit_statistics {
  // With TARN_CONTENTION=on: one object for each name and object size, with the fields of tarn_lock_stats that are not
  // zero; longest_held_ns is the longest of all. Most often taken first. Else empty.
  nlohmann::json locks = nlohmann::json::array();
  std::uint64_t processes = 0;
  std::uint64_t returned = 0;       // bytes returned to the system
  std::uint64_t damaged_lines = 0;  // for example from a process that was killed while it wrote
};

exit_statistics read_exit_statistics(const std::string& path);
exit_statistics parse_exit_statistics(const std::string& text);

}  // namespace tarn::cli
