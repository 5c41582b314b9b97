// SPDX-License-Identifier: MIT
// leak_look: which blocks of a process that waits at its end can still be reached. All its threads are stopped
// during the search.
//
// Roots are: the registers of its threads; their stacks, from the stack pointer up; static data, the recorder's
// included; and all other writable memory except malloc's own and the recorder's. Stacks of ended threads are no
// roots; the dynamic linker's own blocks always count as reachable. Of malloc's memory, only blocks that are
// reached are read.
//
// For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/collect/leak_search.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/collect/stopped_process.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

struct leak_question {
  std::uint32_t process = 0;
  std::uint64_t allocator = 0;  // an address in the code of its malloc
  std::function<void()> progress;
};

struct leak_answer {
  std::string problem;  // why there is no answer; empty: there is one
  double threads = 0;   // that still ran, besides the one that ended the process
  double scanned_bytes = 0;
  std::vector<lost_blocks> lost;
};

std::vector<root_range> roots_of(const std::vector<mapping>& mappings, const process_model& model,
                                 const std::vector<stopped_process::thread>& threads,
                                 std::uint64_t allocator);

leak_answer look_for_leaks(const leak_question& question, const process_model& model,
                           const stopped_process& stopped);

}  // namespace tarn::profiler
