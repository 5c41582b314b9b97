// SPDX-License-Identifier: MIT
// sampled_events: expands the events of sampled blocks to events of all the blocks that they stand for.
//
// A sampled block stands for 1/p of its kind. Its copies have its size, threads and call path. They begin evenly spread
// over the time in which no other sample of the same thread and path is nearer; a copy lives as long as the sample did,
// or, where that is longer than the spread, ends in the time in which no other sample's end is nearer. So sizes, ages
// and what lives at a time are right on average; the order within the spread is not known. Blocks that are always
// recorded stand for themselves, with their growth and the pages that were touched.
//
// If that gives more events than wanted, only a part from the middle of the run is kept, preceded by allocations of
// the blocks that are alive at its beginning. A pure function; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "profiler/replay/event_rows.hpp"

namespace tarn::profiler {

// `sample_bytes`: mean distance between samples; `always`: size from which every block is recorded. Rows and result
// are in the order of their times. Mappings are left out, as they are not malloc's.
std::vector<event_row> expand_samples(const std::vector<event_row>& rows, double sample_bytes,
                                      std::uint64_t always, std::size_t most_events);

}  // namespace tarn::profiler
