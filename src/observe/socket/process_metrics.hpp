// SPDX-License-Identifier: MIT
// process_metrics: the figures of the process's memory, as metrics.
// Thread safety: the control thread.
#pragma once

#include "engine/metrics.hpp"

namespace tarn::control {

#pragma GCC visibility push(hidden)

extern const metric_group process_metrics;  // what the kernel says of the process and its limit

#pragma GCC visibility pop

}  // namespace tarn::control
