// SPDX-License-Identifier: MIT
// first_use: the part of the newest reservation that has never been handed out. No pointer into it exists, so nobody can
// free a block there a second time.
//
// Spans are taken from both ends of a reservation, so what is left is one range:
//
//    | handed out before | never handed out | handed out before |
//                        start_             end_
//
// Owner: the page heap, whose lock guards it.
// Invariant: start_ <= end_; no byte of [start_, end_) has been in a span in use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/invariant.hpp"

namespace tarn {

class first_use {
 public:
  constexpr first_use() = default;

  void validate_locked() const { TARN_INVARIANT("first_use", this, start_ <= end_); }

  // [start, start + bytes) is a new reservation, or lengthens the newest one.
  void reserved_locked(std::uintptr_t start, std::size_t bytes) {
    // What has been unmapped may be mapped again, with the old pointers into it.
    if (has_unmapped_) {
      start_ = end_ = start;
      return;
    }
    if (start != end_) start_ = start;
    end_ = start + bytes;
  }

  // [start, end), memory of the heap in any mapping, is about to be unmapped. A long block may be mapped there.
  void unmapped_locked(std::uintptr_t start, std::uintptr_t end) {
    has_unmapped_ = true;
    take_locked(start, end);
  }

  // [start, end) is about to be handed out. Whether it never was before.
  bool take_locked(std::uintptr_t start, std::uintptr_t end) {
    if (end <= start_ || end_ <= start) return false;
    const bool is_first = start_ <= start && end <= end_;
    const std::uintptr_t before = start > start_ ? start - start_ : 0;
    const std::uintptr_t behind = end < end_ ? end_ - end : 0;
    // Of what is left on both sides, the longer part is remembered.
    if (before <= behind) {
      start_ = end_ - behind;
    } else {
      end_ = start_ + before;
    }
    return is_first;
  }

 private:
  std::uintptr_t start_ = 0;
  std::uintptr_t end_ = 0;
  bool has_unmapped_ = false;
};

}  // namespace tarn
