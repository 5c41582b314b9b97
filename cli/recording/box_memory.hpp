// SPDX-License-Identifier: MIT
// box_memory: what a process with a black box had resident: read from outside by kind, divided by what its box says of malloc, and by
// who holds it. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "profiler/model/box_profile.hpp"

namespace tarn::cli {

// What is resident, by kind; until split_anonymous(), all that is malloc's is `kept`. Where the box does not know where that lies, it is
// `mapped`, as all other memory without a file. Empty: it cannot be read.
// `stack_lengths`: of the process's stacks that earlier calls have found.
std::optional<profiler::memory_row> split_of(std::uint32_t process, std::uint64_t time_ns,
                                             const profiler::box_content& box,
                                             std::set<std::uint64_t>& stack_lengths);

// What lives of malloc's memory, by samples and by the bounds that the engine knows.
struct live_estimate {
  double bytes;
  double variance;
  double bounds_weight;   // that the engine's bounds have in it, 0 to 1
  double untouched_most;  // at most so much of it was never written
};

// What of `row` is malloc's, and what of that lives and is resident.
live_estimate split_anonymous(profiler::memory_row& row, const profiler::box_content& box);

// The parts of `row` by who holds them.
void add_holders(profiler::profile& p, const profiler::memory_row& row, const live_estimate& live,
                 const profiler::box_content& box);

}  // namespace tarn::cli
