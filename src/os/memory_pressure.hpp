// SPDX-License-Identifier: MIT
// memory_pressure: how much memory the process may use, and whether it runs short, by control groups (versions 1 and
// 2), the machine's memory, and the kernel's measure of stalls (PSI).
//
// These are facts; what follows from them is decided in background/pressure.hpp.
//
// Thread safety: any thread, without locks. Nothing is allocated; the caller brings the room. Looks follow a process that is moved to another
// group.
// A file that cannot be read sets no limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::os {

inline constexpr std::uint64_t unlimited = ~std::uint64_t{0};

// In bytes. `limit`: the smallest of the machine's memory and the limits of the process's control group and all groups
// above it (memory.max and memory.high; memory.limit_in_bytes in version 1). `used`: what is used where that limit
// applies, without inactive file pages, which the kernel drops before it refuses memory. No limit known: the largest
// number, and 0.
struct memory_limits {
  std::uint64_t limit;
  std::uint64_t used;
};

// The part of a limit from which on it is nearly reached.
constexpr std::uint64_t near(std::uint64_t limit) { return limit - limit / 16; }

// `limits`: as above. `group`: of the process's control group or the group above it that has the least room below
// near(limit); without a limit of a group: unlimited, and 0. `pressed`: near() of a limit is used, or tasks of the group
// or the machine were stalled by lack of memory for a tenth of the last ten seconds.
struct memory_state {
  memory_limits limits{unlimited, 0};
  memory_limits group{unlimited, 0};
  bool pressed = false;
};

// What a look reads and writes: too much for the stack of a coroutine, or of a signal handler, that allocates.
struct memory_look {
  static constexpr std::size_t longest_path = 1024;
  char group[longest_path];
  char folder[longest_path];
  char line[longest_path];  // the path of a file, until it is open
  char chunk[longest_path / 2];
};

// Reads some ten files, whose paths are below `root`: empty except in tests. `process`: the entry of /proc whose groups
// count; they are looked for where this process sees the hierarchies.
memory_state look_at_memory(const char* root, memory_look& room, const char* process = "self");
// The same with room on the stack.
inline memory_state look_at_memory(const char* root, const char* process = "self") {
  memory_look room;
  return look_at_memory(root, room, process);
}

}  // namespace tarn::os
