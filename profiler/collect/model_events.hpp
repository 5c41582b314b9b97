// SPDX-License-Identifier: MIT
// model_events: what a process_model gets, and the settings by which it counts. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::profiler {

// Kinds of the events table; docs/reference/format.md.
enum class event_kind : std::uint8_t {
  malloc = 1,
  calloc = 2,
  aligned = 3,
  operator_new = 4,
  free = 5,
  realloc = 6,
  mmap = 7,
  munmap = 8,
  touch = 9,
  operator_delete = 10
};

// The duration of a call, as far as it is known.
struct call_duration {
  bool is_timed = false;
  bool is_known = false;     // false: the kernel interrupted the call
  bool is_doubtful = false;  // it is not known whether the kernel interrupted the thread
  double ns = 0;
};

struct allocation_event {
  std::uint64_t time_ns = 0;  // when the call ended, if it was timed
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t usable = 0;     // 0: not known
  std::uint64_t alignment = 0;  // likewise
  std::uint32_t node = 0;
  event_kind kind = event_kind::malloc;
  // The block was sampled at the distance model_settings::sample_bytes, halved this often.
  std::uint8_t halvings = 0;
  call_duration took = {};
};

struct release_event {
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t checked_pages = 0;
  std::uint64_t resident_pages = 0;
  event_kind kind = event_kind::free;
};

struct fault_event {
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t instruction = 0;
  std::uint32_t thread = 0;  // the kernel's thread id
  double weight = 1;
  bool in_kernel = false;
};

// At a site: `lost` blocks, which nothing points to, and `indirect` ones, which only lost blocks lead to.
struct lost_blocks {
  std::uint32_t site = 0;
  double lost = 0;
  double lost_bytes = 0;
  double indirect = 0;
  double indirect_bytes = 0;
};

struct model_settings {
  bool full = true;
  double sample_bytes = 0;           // mean distance between samples, in allocated bytes
  std::uint32_t first_halvings = 0;  // at the start the distance is halved so often
  double malloc_pair_ns = 0;         // one malloc and its free; used where no call was timed
  // Cost of timing that is included in a timed call; used until the recorder has measured it.
  double timer_ns = 0;
  double fault_ns = 0;       // cost of a page fault within a call
  double unmap_page_ns = 0;  // cost of returning one page to the system within a free
  double page_bytes = 4096;
  bool join_faults = false;
  std::uint64_t allocator_start = 0;  // where the code of its malloc lies
  std::uint64_t allocator_end = 0;
  std::size_t most_events = 0;  // rows of the events table; 0: none are kept
};

}  // namespace tarn::profiler
