// SPDX-License-Identifier: MIT
// thin_rows: removes about every second row of a history. Of two neighbours the one with more resident memory
// stays; the first row and the last one always stay.
#pragma once

#include <cstddef>
#include <vector>

namespace tarn::profiler {

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

}  // namespace tarn::profiler
