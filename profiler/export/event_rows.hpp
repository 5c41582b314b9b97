// SPDX-License-Identifier: MIT
// event_rows: the rows of a profile's table "events", in the order of their times. Plain data; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tarn::profiler {

enum event_row_kind : std::uint8_t {
  event_malloc = 1,
  event_calloc = 2,
  event_aligned = 3,
  event_new = 4,
  event_free = 5,
  event_realloc = 6,
  event_mmap = 7,
  event_munmap = 8,
  event_touch = 9,
  event_delete = 10,
};

struct event_row {
  std::uint64_t time = 0;
  std::uint64_t block = 0;
  std::uint64_t size = 0;
  std::uint64_t extra = 0;
  std::uint32_t thread = 0;
  std::uint32_t stack = 0;
  std::uint8_t kind = 0;
};

struct event_rows {
  std::vector<event_row> rows;
  bool cut = false;    // there were more events than wanted
  std::string damage;  // of the file; empty: none
};

// Reads the first `most` rows of the file. Throws profile_error for an invalid row.
event_rows read_events(const std::string& path, std::size_t most);

}  // namespace tarn::profiler
