// SPDX-License-Identifier: MIT
// timeline: when the counters of a process are read, and which rows are kept: all at first, then fewer, so that
// their number stays bounded however long the process runs. Of neighbours the one with most resident memory
// stays. Invariant: at most most_rows rows; the first and the last one are always kept; times do not decrease;
// highest_ is the most resident memory of all rows. Not thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Removes about every second row of a history. Of two neighbours the one with more resident memory stays; the first row and
// the last one always stay.
template <class Row>
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

// Of the rows of each time slot the one with most resident memory stays. A slot is the largest power of two of ns up to 1 / parts
// of its age, so what is left of d ns, read each i ns, are about parts * (2 + log2(d / (parts * i))) rows, the newest `parts`
// untouched. The first row and the last one always stay.
template <class Row>
void thin_by_age(std::vector<Row>& rows, std::uint64_t parts) {
  std::size_t kept = 1;
  std::uint64_t slot_begin = ~std::uint64_t{0};
  for (std::size_t next = 1; next < rows.size(); ++next) {
    const std::uint64_t width = std::bit_floor((rows.back().time_ns - rows[next].time_ns) / parts);
    const std::uint64_t begin = width == 0 ? ~std::uint64_t{0} : rows[next].time_ns / width * width;
    const bool is_same = width != 0 && begin == slot_begin && next + 1 < rows.size();
    slot_begin = begin;
    if (!is_same) ++kept;
    if (!is_same || rows[next].resident_bytes > rows[kept - 1].resident_bytes) rows[kept - 1] = rows[next];
  }
  rows.resize(kept);
}

inline constexpr std::size_t parts_of_history = 24;

// Makes room in a history of more than `most` rows. Until it is read each `longest_ns`, every second row goes, and it is read half
// as often; later it is thinned by age, so that the last most / parts_of_history readings are all there.
template <class Row>
void make_room(std::vector<Row>& rows, std::size_t most, std::uint64_t& interval_ns,
               std::uint64_t longest_ns) {
  const bool is_at_longest = interval_ns >= longest_ns;
  if (is_at_longest) thin_by_age(rows, most / parts_of_history);
  if (is_at_longest && rows.size() <= most) return;
  thin_rows(rows);
  if (!is_at_longest) interval_ns *= 2;
}

class timeline {
 public:
  static constexpr std::uint64_t first_interval_ns = 10'000'000;
  static constexpr std::uint64_t longest_interval_ns = first_interval_ns << 7;
  static constexpr std::size_t most_rows = 4096;

  std::uint64_t interval_ns() const noexcept { return interval_ns_; }
  // How long back no row is missing, once older ones are thinned by age; 0: they are not.
  std::uint64_t untouched_ns() const noexcept {
    return is_thinned_by_age_ ? most_rows / parts_of_history * interval_ns_ : 0;
  }
  void add(std::vector<counter_row>& rows, const counter_row& row);
  // Some time up to now, `resident_bytes` were resident: if no row has as much, the newest row is raised to it.
  void raise(std::vector<counter_row>& rows, double resident_bytes);
  void validate(const std::vector<counter_row>& rows) const;

 private:
  std::uint64_t interval_ns_ = first_interval_ns;
  bool is_thinned_by_age_ = false;
  double highest_ = 0;  // of all rows
};

}  // namespace tarn::profiler
