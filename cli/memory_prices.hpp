// SPDX-License-Identifier: MIT
// memory_prices: what the system charges for memory here and now: a page fault, zeroing, a huge page, writing,
// unmapping. Measured with mmap alone, in a child process, so that this one stays small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tarn::cli {

struct memory_prices {
  std::size_t page_bytes = 0;
  std::size_t huge_page_bytes = 0;  // 0: the system has none
  double fault_seconds = 0;         // the first write to a page, its zeroing included
  double huge_fault_seconds = 0;    // the same for a huge page; 0: none was given
  double zeroing_per_mib = 0;       // seconds; within huge_fault_seconds, or estimated as writing_per_mib
  double writing_per_mib = 0;       // to memory that is there
  double unmapping_per_mib = 0;
  // Of the memory that was written first of all, which this process's system may have had to get from a host:
  std::uint64_t first_bytes = 0;
  std::uint64_t costly_bytes = 0;   // where faults cost more than `costly_factor` times the usual
  double costly_fault_seconds = 0;  // the price there
  double first_fault_seconds = 0;   // the price over all of first_bytes
};

inline constexpr double costly_factor = 2.5;
// Less than this part of the memory may be costly because the program was interrupted there.
inline constexpr double smallest_costly_part = 0.05;

// In this process: takes and gives back up to `bytes` at a time. Throws cli_error when there is no memory.
memory_prices measure_prices(std::uint64_t bytes);

// In a child of this command. Throws cli_error when it fails.
memory_prices calibrate_prices();

// One line of the usual prices, and one of those of memory that nobody had touched before.
std::string describe_prices(const memory_prices& prices);
std::string describe_first_touch(const memory_prices& prices);

nlohmann::json as_json(const memory_prices& prices);
// Throws nlohmann::json::exception for anything else.
memory_prices prices_from_json(const nlohmann::json& object);

}  // namespace tarn::cli
