// SPDX-License-Identifier: MIT
#include "profiler/collect/timeline.hpp"

#include <algorithm>

#include "os/invariant.hpp"

namespace tarn::profiler {

bool timeline::add(std::vector<counter_row>& rows, const counter_row& row) {
  rows.push_back(row);
  highest_ = std::max(highest_, row.resident_bytes);
  const bool is_thinned = rows.size() > most_rows;
  if (is_thinned) {
    thin_rows(rows);
    interval_ns_ *= 2;
  }
  if (os::is_check_due(rows.size())) validate(rows);
  return is_thinned;
}

void timeline::validate(const std::vector<counter_row>& rows) const {
  double highest = 0;
  for (const counter_row& row : rows) highest = std::max(highest, row.resident_bytes);
  const bool is_ordered =
      std::is_sorted(rows.begin(), rows.end(),
                     [](const counter_row& a, const counter_row& b) { return a.time_ns < b.time_ns; });
  TARN_INVARIANT("timeline", this, rows.size() <= most_rows);
  TARN_INVARIANT("timeline", this, is_ordered);
  TARN_INVARIANT("timeline", this, highest_ == highest);
}

bool timeline::raise(std::vector<counter_row>& rows, double resident_bytes) {
  if (rows.empty() || resident_bytes <= highest_) return false;
  rows.back().resident_bytes = resident_bytes;
  highest_ = resident_bytes;
  return true;
}

}  // namespace tarn::profiler
