// SPDX-License-Identifier: MIT
// timeline: when the counters of a process are read, and which rows are kept: all at first, then fewer, so that
// their number stays bounded however long the process runs. Of two neighbours the one with more resident memory
// stays. Invariant: at most most_rows rows; the first and the last one are always kept; times do not decrease;
// highest_ is the most resident memory of all rows. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Removes about every second row of a history. Of two neighbours the one with more resident memory stays; the first row and
// the last one always stay.
template <typename Row>
void thin_rows(std::vector<Row>& rows) {
  std::size_t kept = 1;
  std::size_t next = 1;
  for (; next + 2 < rows.size(); next += 2) {
    const bool first = rows[next].resident_bytes > rows[next + 1].resident_bytes;
    rows[kept++] = rows[first ? next : next + 1];
  }
  for (; next < rows.size(); ++next) rows[kept++] = rows[next];
  rows.resize(kept);
}

class timeline {
 public:
  static constexpr std::uint64_t first_interval_ns = 10'000'000;
  static constexpr std::size_t most_rows = 4096;

  std::uint64_t interval_ns() const noexcept { return interval_ns_; }
  // Appends `row`. True: rows have been removed, so rows that were stored in the file before must be stored again.
  bool add(std::vector<counter_row>& rows, const counter_row& row);
  // Some time up to now, `resident_bytes` were resident: if no row has as much, the newest row is raised to it.
  // True: it was.
  bool raise(std::vector<counter_row>& rows, double resident_bytes);
  void validate(const std::vector<counter_row>& rows) const;

 private:
  std::uint64_t interval_ns_ = first_interval_ns;
  double highest_ = 0;  // of all rows
};

}  // namespace tarn::profiler
