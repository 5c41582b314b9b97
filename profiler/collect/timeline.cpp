// SPDX-License-Identifier: MIT
#include "profiler/collect/timeline.hpp"

#include <algorithm>

#include "os/invariant.hpp"

namespace tarn::profiler {

void timeline::add(std::vector<counter_row>& rows, const counter_row& row) {
  rows.push_back(row);
  highest_ = std::max(highest_, row.resident_bytes);
  if (rows.size() > most_rows) {
    is_thinned_by_age_ = interval_ns_ >= longest_interval_ns;
    make_room(rows, most_rows, interval_ns_, longest_interval_ns);
  }
  if (os::is_check_due(rows.size())) validate(rows);
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

void timeline::raise(std::vector<counter_row>& rows, double resident_bytes) {
  if (rows.empty() || resident_bytes <= highest_) return;
  rows.back().resident_bytes = resident_bytes;
  highest_ = resident_bytes;
}

}  // namespace tarn::profiler
