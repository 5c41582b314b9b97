// SPDX-License-Identifier: MIT
// difference_data: what changed since earlier recordings, as the data of the report's page: totals, and call paths with before,
// after and margin of every metric. Bounded: the call paths that changed most; all others are one row, so that sums agree. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "profiler/export/difference.hpp"

namespace tarn::profiler {

// Members: docs/reference/report.md.
nlohmann::json difference_data(const difference& changes, std::size_t most_rows = 3000);

}  // namespace tarn::profiler
