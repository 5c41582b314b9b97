// SPDX-License-Identifier: MIT
// statistics: a snapshot of all tiers' figures, and its form as JSON. Thread safety: any thread.
#pragma once

#include "base/text.hpp"
#include "engine/metrics.hpp"
#include "tarn/malloc.h"

namespace tarn::statistics {

void collect(tarn_stats& out);
// Bytes of the free objects in spans that are partly in use, and of the rests of spans in which no object fits: part of in_use, and not
// of cached. Takes each depot's lock in turn.
std::uint64_t free_in_spans();
// Writes one JSON object without a newline. `with_process`: includes the process's number and program.
void write_json(text_writer& out, bool with_process);

#pragma GCC visibility push(hidden)
// The same figures, as metrics.
extern const metric_group metrics;
// Of each size class that has spans. For black boxes: too many to be asked for all the time.
extern const metric_group class_metrics;
#pragma GCC visibility pop

}  // namespace tarn::statistics
