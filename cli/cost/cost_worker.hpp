// SPDX-License-Identifier: MIT
// cost_worker: obtains, writes and releases a buffer repeatedly, and measures each step. Runs in a child of this
// command under the allocator to be measured, so that no other process's memory and no other way to get a buffer
// influences the result.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/compare/contender.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/cost/buffer_way.hpp"
#include "cli/cost/memory_prices.hpp"

namespace tarn::cli {

// One worker's figures: means over its cycles, so that they add up. A cycle is: allocate, write all of it, write
// all of it again, free.
struct cost_figures {
  double allocate_seconds = 0;
  double first_write_seconds = 0;
  double second_write_seconds = 0;
  double free_seconds = 0;
  double faults = 0;          // minor and major, of all threads
  double system_seconds = 0;  // of all threads; some kernels account it by timer ticks
  // Growth of resident memory (without files) from before the first cycle to after the last one.
  double kept_bytes = 0;
  double opening_seconds = 0;  // the first cycle in the process, which is not in the means
  double cycles = 0;

  double cycle_seconds() const {
    return allocate_seconds + first_write_seconds + second_write_seconds + free_seconds;
  }
  double timed_seconds() const { return allocate_seconds + free_seconds; }
};

inline constexpr std::array<named_figure<cost_figures>, 9> cost_figure_names = {{
    {"allocate_seconds", &cost_figures::allocate_seconds},
    {"first_write_seconds", &cost_figures::first_write_seconds},
    {"second_write_seconds", &cost_figures::second_write_seconds},
    {"free_seconds", &cost_figures::free_seconds},
    {"faults", &cost_figures::faults},
    {"system_seconds", &cost_figures::system_seconds},
    {"kept_bytes", &cost_figures::kept_bytes},
    {"opening_seconds", &cost_figures::opening_seconds},
    {"cycles", &cost_figures::cycles},
}};

// The hidden words by which this command starts itself as a worker.
inline constexpr const char* cost_worker_word = "--cost-worker";
inline constexpr const char* prices_word = "prices";
inline constexpr const char* pair_word = "pair";

// Measures for about `seconds`, at least a few cycles. Throws cli_error if a buffer cannot be allocated.
cost_figures measure_cycles(buffer_source source, std::size_t size, double seconds);

// Duration of one malloc and its free of 64 bytes, averaged over many blocks that live at the same time: processor
// time, the fastest of several passes. `timed_seconds`: the sum for the two calls when each is timed with the
// recorder's tick source, which makes a call seem longer than it is.
struct malloc_pair {
  double seconds = 0;
  double timed_seconds = 0;
};
malloc_pair measure_malloc_pair();

// The worker's main function: `words` is "prices BYTES", "pair" or "SOURCE BYTES SECONDS". Prints one JSON object
// on stdout.
int cost_worker(const std::vector<std::string>& words);

// Starts a worker under `who` and returns what it prints. Throws cli_error with the reason when it fails.
std::string run_cost_worker(const contender& who, std::vector<std::string> words, double timeout_seconds);

// The prices of memory, measured in a worker. Throws cli_error when that fails.
memory_prices calibrate_prices();

// Measures one way to get a buffer in a worker. Throws cli_error with the reason if it fails.
cost_figures run_cycles(const buffer_way& way, std::size_t size, double seconds);

}  // namespace tarn::cli
