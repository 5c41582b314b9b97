// SPDX-License-Identifier: MIT
// How much memory the process may use, and whether it runs short: control groups (versions 1 and 2), the machine, and
// the kernel's own measure of stalls (PSI).
//
// Thread safety: all functions may be called by any thread, without locks: they read files. Nothing is allocated, and
// no state is kept but under_pressure()'s last answer, so a process that is moved to another group is followed.
// Failure: what cannot be read sets no limit.
#pragma once

#include <cstdint>

namespace tarn::os {

// In bytes. `limit` is the least of the machine's memory and the limits of the process's control group and of all groups
// above it (memory.max and memory.high; memory.limit_in_bytes in version 1). `used` is what is used where that limit
// holds, without file pages that nobody has touched lately: the kernel drops those before it refuses anything. No limit
// known: the largest number, and 0.
struct memory_limits {
  std::uint64_t limit;
  std::uint64_t used;
};

memory_limits read_memory_limits();

// One of the limits is nearly reached (15/16 of it are used), or tasks of the group or the machine have been stalled for
// want of memory for a tenth of the last ten seconds. Cost: some ten files read, once a second at most; the last answer
// in between.
bool under_pressure();

struct memory_state {
  memory_limits limits;
  bool pressed;
};

// What both are made of. All paths are below `root`, which is empty but in tests.
memory_state look_at_memory(const char* root);

}  // namespace tarn::os
