// SPDX-License-Identifier: MIT
// exit_statistics: what libtarn wrote at the exit of each process of a run (TARN_STATS=FILE).
#pragma once

#include <cstdint>
#include <string>

namespace tarn::cli {

// Sums over the processes that reported.
struct exit_statistics {
  std::uint64_t processes = 0;
  std::uint64_t returned = 0;       // bytes returned to the system
  std::uint64_t damaged_lines = 0;  // for example from a process that was killed while it wrote
};

exit_statistics read_exit_statistics(const std::string& path);
exit_statistics parse_exit_statistics(const std::string& text);

}  // namespace tarn::cli
