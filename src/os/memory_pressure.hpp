// SPDX-License-Identifier: MIT
// memory_pressure: how much memory the process may use, and whether it runs short, by control groups (versions 1 and
// 2), the machine's memory, and the kernel's measure of stalls (PSI).
//
// Thread safety: all functions may be called by any thread, without locks, since they read files. Nothing is allocated.
// The only state is under_pressure()'s last answer, so a process that is moved to another group is followed. A file
// that cannot be read sets no limit.
#pragma once

#include <cstdint>

namespace tarn::os {

// In bytes. `limit`: the smallest of the machine's memory and the limits of the process's control group and all groups
// above it (memory.max and memory.high; memory.limit_in_bytes in version 1). `used`: what is used where that limit
// applies, without inactive file pages, which the kernel drops before it refuses memory. No limit known: the largest
// number, and 0.
struct memory_limits {
  std::uint64_t limit;
  std::uint64_t used;
};

memory_limits read_memory_limits();

// Whether 15/16 of a limit are used, or tasks of the group or the machine were stalled by lack of memory for a tenth of
// the last ten seconds. Cost: reads some ten files, at most once a second; in between returns the last answer.
bool under_pressure();

struct memory_state {
  memory_limits limits;
  bool pressed;
};

// Both functions use this one. All paths are below `root`, which is empty except in tests.
memory_state look_at_memory(const char* root);

}  // namespace tarn::os
