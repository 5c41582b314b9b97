// SPDX-License-Identifier: MIT
// sampled_events: of the events of sampled blocks, those of all blocks that they stand for.
//
// A sampled block stands for 1/p of its kind. Its copies have its size, threads and call path. They begin evenly spread
// over the time in which no other sample of the same thread and path is nearer; a copy lives as long as the sample did,
// or, where that is longer than the spread, ends in the time in which no other sample's end is nearer. So sizes, ages and
// what lives at a time are right on average; the order within the spread is not known. Blocks that are always recorded
// stand for themselves, with their growth and the pages that were touched.
//
// Where that makes more events than are wanted, those of a part of the run from its middle are taken, after blocks that
// live when the part begins.
// A pure function; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "profiler/replay/event_rows.hpp"

namespace tarn::profiler {

// `sample_bytes` is the mean distance of samples, `always` the size from which on each block is recorded. Rows are in the
// order of their times, as the result. Mappings are left out: they are not malloc's.
std::vector<event_row> expand_samples(const std::vector<event_row>& rows, double sample_bytes,
                                      std::uint64_t always, std::size_t most_events);

}  // namespace tarn::profiler
