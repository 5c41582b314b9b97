// SPDX-License-Identifier: MIT
// cost_worker: takes, writes and gives back a buffer again and again and tells what each step took. Runs in a child of
// this command, under the allocator to be measured: no other process's memory, and no other way, is mixed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "buffer_way.hpp"
#include "contender.hpp"

namespace tarn::cli {

// One worker's figures: means over its cycles, so that they add up. A cycle is take, write all, write all again,
// give back.
struct cost_figures {
  double allocate_seconds = 0;
  double first_write_seconds = 0;
  double second_write_seconds = 0;
  double free_seconds = 0;
  double faults = 0;          // minor and major, of all threads
  double system_seconds = 0;  // of all threads; the kernel may book by timer ticks
  double kept_bytes =
      0;  // by how much more is resident (not counting files) after the last cycle than before the first
  double opening_seconds = 0;  // the first cycle in the process, which the means leave out
  double cycles = 0;

  double cycle_seconds() const {
    return allocate_seconds + first_write_seconds + second_write_seconds + free_seconds;
  }
  double timed_seconds() const { return allocate_seconds + free_seconds; }
};

// The hidden words by which this command starts itself as a worker.
inline constexpr const char* cost_worker_word = "--cost-worker";
inline constexpr const char* prices_word = "prices";
inline constexpr const char* pair_word = "pair";

// Measures for about `seconds`, at least a few cycles. Throws cli_error when a buffer cannot be had.
cost_figures measure_cycles(buffer_source source, std::size_t size, double seconds);

// What a malloc and a free of 64 bytes take together, over many that live side by side: processor time of the quietest of
// several passes. `timed_seconds`: the sum of the two calls when each is timed by the recorder's tick source, which makes
// a call seem longer than it is.
struct malloc_pair {
  double seconds = 0;
  double timed_seconds = 0;
};
malloc_pair measure_malloc_pair();

// The worker's main: `words` is "prices BYTES", "pair" or "SOURCE BYTES SECONDS". Prints one JSON object on stdout.
int cost_worker(const std::vector<std::string>& words);

// Starts a worker under `who` and returns what it prints. Throws cli_error with the reason when it fails.
std::string run_cost_worker(const contender& who, const std::vector<std::string>& words,
                            double timeout_seconds);

// Measures one way in a worker. Throws cli_error with the reason when it fails.
cost_figures run_cycles(const buffer_way& way, std::size_t size, double seconds);

// Tells the compiler that somebody reads what `memory` points to.
inline void keep_writes(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

}  // namespace tarn::cli
