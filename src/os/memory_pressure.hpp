// SPDX-License-Identifier: MIT
// memory_pressure: how much memory the process may use, and whether it runs short, by control groups (versions 1 and
// 2), the machine's memory, and the kernel's measure of stalls (PSI).
//
// Thread safety: any thread, without locks. Nothing is allocated. Looks follow a process that is moved to another group.
// A file that cannot be read sets no limit.
#pragma once

#include <atomic>
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

// `pressed`: 15/16 of a limit are used, or tasks of the group or the machine were stalled by lack of memory for a tenth of
// the last ten seconds.
struct memory_state {
  memory_limits limits;
  bool pressed;
};

// Reads some ten files, whose paths are below `root`: empty except in tests.
memory_state look_at_memory(const char* root);

// The last look at the memory of the process, for all who ask. Time comes from the caller.
// Invariant: limit_, used_ and pressed_ are of look number looks_ or a later one; before the first look they say: no limit,
// no pressure.
class memory_watch {
 public:
  static constexpr std::int64_t interval_ms = 1000;

  constexpr memory_watch() = default;

  // Looks if interval_ms have passed since the last time; returns the number of looks so far. One thread looks, the others
  // have the last result. No look once the process has entered a sandbox, which may forbid opening files.
  std::uint32_t look(std::int64_t now_ms);
  [[nodiscard]] memory_state last() const {
    return {{limit_.load(std::memory_order_relaxed), used_.load(std::memory_order_relaxed)},
            pressed_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::int64_t> next_look_{0};
  std::atomic<std::uint64_t> limit_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> used_{0};
  std::atomic<bool> pressed_{false};
  std::atomic<std::uint32_t> looks_{0};
};

inline constinit memory_watch process_memory;

}  // namespace tarn::os
