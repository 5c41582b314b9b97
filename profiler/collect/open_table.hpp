// SPDX-License-Identifier: MIT
// open_table: entries by a number that each of them holds; 0 is the number of an empty bucket. Open addressing with linear
// probing. Not thread-safe. References stay good until the next add or erase.
// Invariant (validate()): count_ entries take at most half of the buckets, and each is reachable from its first bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "os/invariant.hpp"

namespace tarn::profiler {

template <class Entry, std::uint64_t Entry::*Key>
class open_table {
 public:
  // Null: there is none. Requires: the key is not 0.
  Entry* find(std::uint64_t key) noexcept {
    for (std::size_t at = first_bucket_of(key);; at = behind(at)) {
      if (buckets_[at].*Key == key) return &buckets_[at];
      if (buckets_[at].*Key == 0) return nullptr;
    }
  }

  // Requires: its key is not 0, and not in the table.
  Entry& add(const Entry& entry) {
    if (2 * (count_ + 1) > buckets_.size()) grow();
    ++count_;
    Entry& added = insert(entry);
    if (os::is_check_due(buckets_.size())) validate();
    return added;
  }

  // Closes the gap (deletion without tombstones), so that every entry stays reachable from its first bucket.
  void erase(Entry* entry) {
    auto gap = static_cast<std::size_t>(entry - buckets_.data());
    for (std::size_t next = behind(gap); buckets_[next].*Key != 0; next = behind(next)) {
      const std::size_t first = first_bucket_of(buckets_[next].*Key);
      if (((next - first) & mask()) < ((next - gap) & mask())) continue;
      buckets_[gap] = buckets_[next];
      gap = next;
    }
    buckets_[gap] = {};
    --count_;
  }

  std::size_t size() const noexcept { return count_; }
  const std::vector<Entry>& buckets() const noexcept { return buckets_; }
  std::vector<Entry>& buckets() noexcept { return buckets_; }

  void validate() {
    std::size_t taken = 0;
    for (Entry& entry : buckets_) {
      if (entry.*Key == 0) continue;
      ++taken;
      TARN_INVARIANT("open_table", this, find(entry.*Key) == &entry);
    }
    TARN_INVARIANT("open_table", this, count_ == taken);
    TARN_INVARIANT("open_table", this, 2 * count_ <= buckets_.size());
  }

 private:
  static constexpr unsigned first_bits = 7;  // many processes have few blocks

  std::size_t mask() const noexcept { return buckets_.size() - 1; }
  std::size_t behind(std::size_t at) const noexcept { return (at + 1) & mask(); }
  std::size_t first_bucket_of(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15U) >> shift_);
  }

  Entry& insert(const Entry& entry) {
    std::size_t at = first_bucket_of(entry.*Key);
    while (buckets_[at].*Key != 0) at = behind(at);
    return buckets_[at] = entry;
  }

  void grow() {
    std::vector<Entry> old(2 * buckets_.size());
    std::swap(old, buckets_);
    --shift_;
    for (const Entry& entry : old) {
      if (entry.*Key != 0) insert(entry);
    }
  }

  unsigned shift_ = 64 - first_bits;
  std::size_t count_ = 0;
  std::vector<Entry> buckets_ = std::vector<Entry>(std::size_t{1} << first_bits);
};

}  // namespace tarn::profiler
