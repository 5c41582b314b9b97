// SPDX-License-Identifier: MIT
// timeline: when the state of a process is looked at, and which of the looks are kept: each at first, then fewer, so that
// they stay bounded in number however long the process runs. Of two neighbours the one with more resident memory stays.
// Invariant: at most most_rows rows; the first and the last one are always kept; times do not fall.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class timeline {
 public:
  static constexpr std::uint64_t first_interval_ns = 10'000'000;
  static constexpr std::size_t most_rows = 4096;

  std::uint64_t interval_ns() const noexcept { return interval_ns_; }
  // Appends `row`. True: rows have been left out, so that what was stored before has to be stored anew.
  bool add(std::vector<counter_row>& rows, const counter_row& row);
  // So much was resident at some moment up to now: the newest row takes it, where no row has as much. True: it did.
  bool raise(std::vector<counter_row>& rows, double resident_bytes);

 private:
  std::uint64_t interval_ns_ = first_interval_ns;
  double highest_ = 0;  // of all rows
};

}  // namespace tarn::profiler
