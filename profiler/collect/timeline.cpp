// SPDX-License-Identifier: MIT
#include "profiler/collect/timeline.hpp"

#include <algorithm>

#include "profiler/collect/thin_rows.hpp"

namespace tarn::profiler {

bool timeline::add(std::vector<counter_row>& rows, const counter_row& row) {
  rows.push_back(row);
  highest_ = std::max(highest_, row.resident_bytes);
  if (rows.size() <= most_rows) return false;
  thin_rows(rows);
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
