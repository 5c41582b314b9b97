// SPDX-License-Identifier: MIT
// open_table: entries by a number that each of them holds; 0 is the number of an empty place. Open addressing with linear
// probing. Not thread-safe. References stay good until the next add or erase.
// Invariant: count_ entries take at most half of the places, and each is reachable from its home place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tarn::profiler {

template <class Entry, std::uint64_t Entry::*Key>
class open_table {
 public:
  // Null: there is none. Requires: the key is not 0.
  Entry* find(std::uint64_t key) noexcept {
    for (std::size_t at = home_of(key);; at = behind(at)) {
      if (places_[at].*Key == key) return &places_[at];
      if (places_[at].*Key == 0) return nullptr;
    }
  }

  // Requires: its key is not 0, and not in the table.
  Entry& add(const Entry& entry) {
    if (2 * (count_ + 1) > places_.size()) grow();
    ++count_;
    return place(entry);
  }

  // Closes the gap (deletion without tombstones), so that every entry stays reachable from its home place.
  void erase(Entry* entry) {
    auto gap = static_cast<std::size_t>(entry - places_.data());
    for (std::size_t next = behind(gap); places_[next].*Key != 0; next = behind(next)) {
      const std::size_t home = home_of(places_[next].*Key);
      if (((next - home) & mask()) < ((next - gap) & mask())) continue;
      places_[gap] = places_[next];
      gap = next;
    }
    places_[gap] = {};
    --count_;
  }

  std::size_t size() const noexcept { return count_; }
  const std::vector<Entry>& places() const noexcept { return places_; }
  std::vector<Entry>& places() noexcept { return places_; }

 private:
  static constexpr unsigned first_bits = 7;  // many processes have few blocks

  std::size_t mask() const noexcept { return places_.size() - 1; }
  std::size_t behind(std::size_t at) const noexcept { return (at + 1) & mask(); }
  std::size_t home_of(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15U) >> shift_);
  }

  Entry& place(const Entry& entry) {
    std::size_t at = home_of(entry.*Key);
    while (places_[at].*Key != 0) at = behind(at);
    return places_[at] = entry;
  }

  void grow() {
    std::vector<Entry> old(2 * places_.size());
    std::swap(old, places_);
    --shift_;
    for (const Entry& entry : old) {
      if (entry.*Key != 0) place(entry);
    }
  }

  unsigned shift_ = 64 - first_bits;
  std::size_t count_ = 0;
  std::vector<Entry> places_ = std::vector<Entry>(std::size_t{1} << first_bits);
};

}  // namespace tarn::profiler
