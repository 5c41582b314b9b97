// SPDX-License-Identifier: MIT
// memory_prices: the cost of memory on this system at this time: a page fault, zeroing, a huge page, writing,
// unmapping. Measured with mmap alone; in a child process (cost_worker.hpp), so that the command stays small.
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
  double writing_per_mib = 0;       // to resident memory
  double unmapping_per_mib = 0;
  // Of the memory that was written first of all, which a virtual machine may have to get from its host:
  std::uint64_t first_bytes = 0;
  // Part of first_bytes where faults cost more than `costly_factor` times the usual price.
  std::uint64_t costly_bytes = 0;
  double costly_fault_seconds = 0;  // price of a fault there
  double first_fault_seconds = 0;   // mean price of a fault over all of first_bytes
};

inline constexpr double costly_factor = 2.5;
// A smaller share of costly memory may also come from interruptions of the program, and is ignored.
inline constexpr double smallest_costly_part = 0.05;

// Measures in this process; maps up to `bytes` at a time. Throws cli_error if there is no memory.
memory_prices measure_prices(std::uint64_t bytes);

// One line with the usual prices, and one with the prices of memory that was never touched before.
std::string describe_prices(const memory_prices& prices);
std::string describe_first_touch(const memory_prices& prices);

nlohmann::json as_json(const memory_prices& prices);
// Throws nlohmann::json::exception for anything else.
memory_prices prices_from_json(const nlohmann::json& object);

}  // namespace tarn::cli
