// SPDX-License-Identifier: MIT
#include "profiler/collect/timeline.hpp"

#include <algorithm>

namespace tarn::profiler {

bool timeline::add(std::vector<counter_row>& rows, const counter_row& row) {
  rows.push_back(row);
  highest_ = std::max(highest_, row.resident_bytes);
  if (rows.size() <= most_rows) return false;
  std::size_t kept = 1;
  std::size_t next = 1;
  for (; next + 2 < rows.size(); next += 2) {
    const bool first = rows[next].resident_bytes > rows[next + 1].resident_bytes;
    rows[kept++] = rows[first ? next : next + 1];
  }
  for (; next < rows.size(); ++next) rows[kept++] = rows[next];
  rows.resize(kept);
  interval_ns_ *= 2;
  return true;
}

bool timeline::raise(std::vector<counter_row>& rows, double resident_bytes) {
  if (rows.empty() || resident_bytes <= highest_) return false;
  rows.back().resident_bytes = resident_bytes;
  highest_ = resident_bytes;
  return true;
}

}  // namespace tarn::profiler
