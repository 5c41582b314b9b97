// SPDX-License-Identifier: MIT
// event_rows: the kinds of rows of a profile's table "events", and what call paths allocated in each part of the run, which
// only these rows tell. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/format/table_file.hpp"

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

// Passes on the rows of the events, which load_profile() leaves out. Returns what is damaged among them; empty: nothing.
// That the file ends early is not told here: load_profile() does, unless the recording goes on. Throws profile_error.
std::string read_events(const std::string& path, const std::function<void(const table&)>& take);

// Of one call path in one slice of the run.
struct slice_cell {
  std::uint32_t stack = 0;
  std::uint32_t slice = 0;
  double allocations = 0;
  double bytes = 0;
  double grown = 0;  // live bytes at its end more than at its beginning
};

struct event_slices {
  std::vector<std::uint64_t> ends_ns;  // of the slices, which are equally long; empty: the file has no events
  std::vector<slice_cell> cells;       // by stack, then slice; none that is all 0
  std::string damage = {};             // of read_events()
};

// Cuts the first `duration_ns` into `slices`, or into fewer where there would be more than `most_cells`. Holds a few dozen bytes for
// each living block and each cell. Throws profile_error for a file that is no profile; what is damaged ends the events.
event_slices slices_of(const std::string& path, std::uint64_t duration_ns, std::size_t slices = 100,
                       std::size_t most_cells = 400'000);

}  // namespace tarn::profiler
