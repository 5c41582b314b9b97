// SPDX-License-Identifier: MIT
// heap_ranges: the parts of the address space that the page heap has: reservations and mappings of large blocks, joined where they
// touch. Who knows a process from outside tells malloc's memory by them from what the program has mapped (black_box.hpp).
//
// Owner: the page heap, whose lock guards it; version() may be read without. When they are more than `most`, which only a program
// whose blocks are mapped and unmapped in many places makes, they are lost, for good.
// Invariants: sorted; each ends before the next begins; unless they are lost, their sum is what the page heap has reserved less what it
// is unmapping, which is in transit.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.hpp"
#include "os/invariant.hpp"
#include "os/memory.hpp"

namespace tarn {

class heap_ranges {
 public:
  static constexpr std::size_t most = 512;

  constexpr heap_ranges() = default;

  // Requires: nothing of [start, end) is in a range.
  void add_locked(std::uintptr_t start, std::uintptr_t end) {
    os::address_range* const next = behind(start);
    const bool joins_before = next != all_ && next[-1].end == start;
    const bool joins_next = next != all_ + count_ && next->start == end;
    if (joins_before && joins_next) {
      next[-1].end = next->end;
      erase(next);
    } else if (joins_before) {
      next[-1].end = end;
    } else if (joins_next) {
      next->start = start;
    } else {
      insert(next, {start, end});
    }
    note_change();
  }

  // Requires: all of [start, end) is in one range, unless the ranges are lost.
  void remove_locked(std::uintptr_t start, std::uintptr_t end) {
    if (is_lost_) return;
    os::address_range* const of = behind(start) - 1;
    if (of->start == start && of->end == end) {
      erase(of);
    } else if (of->start == start) {
      of->start = end;
    } else if (of->end == end) {
      of->end = start;
    } else {
      const std::uintptr_t last = of->end;
      of->end = start;
      insert(of + 1, {end, last});
    }
    note_change();
  }

  [[nodiscard]] bool are_lost() const { return is_lost_; }
  [[nodiscard]] std::span<const os::address_range> all() const { return {all_, count_}; }
  // Another one after each change; 0: there has been none.
  [[nodiscard]] std::size_t version() const { return version_.load(std::memory_order_relaxed); }

  // `least`: the pages that are not in transit.
  void validate_locked(std::size_t least, std::size_t reserved) const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      TARN_INVARIANT("heap_ranges", this, all_[i].start < all_[i].end);
      TARN_INVARIANT("heap_ranges", this, i == 0 || all_[i - 1].end < all_[i].start);
      sum += all_[i].bytes() >> page_shift;
    }
    TARN_INVARIANT("heap_ranges", this, is_lost_ || (sum >= least && sum <= reserved));
  }

 private:
  // The first range that begins behind the address.
  os::address_range* behind(std::uintptr_t address) {
    return std::upper_bound(all_, all_ + count_, address,
                            [](std::uintptr_t at, const os::address_range& one) { return at < one.start; });
  }
  void insert(os::address_range* at, os::address_range one) {
    if (is_lost_) return;
    if (count_ == most) {
      is_lost_ = true;
      count_ = 0;
      return;
    }
    std::move_backward(at, all_ + count_, all_ + count_ + 1);
    *at = one;
    ++count_;
  }
  void erase(os::address_range* at) {
    std::move(at + 1, all_ + count_, at);
    --count_;
  }
  void note_change() { version_.store(version() + 1, std::memory_order_relaxed); }

  os::address_range all_[most]{};
  std::size_t count_ = 0;
  bool is_lost_ = false;
  std::atomic<std::size_t> version_{0};
};

}  // namespace tarn
