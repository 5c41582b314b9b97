// SPDX-License-Identifier: MIT
// fill_evidence: whether the program fills the fresh spans of a length that it is given, found by looking at some of them
// later.
//
// A program may ask for 1 MiB and write 10 KiB of it, so spans of medium length are backed page by page, as they are
// written. Most programs fill them, and pay a page fault for every page. So some spans are samples: a sample is left
// alone, and when the next span of its length is asked for, the system is asked how many of the sample's pages are
// backed. If `first_streak` samples in a row were filled, the next spans of the length, `trust` bytes of them, are handed
// out as memory that will be filled; then another span is a sample. `trust` doubles with every sample that was
// filled, up to an eighth of the heap; a sample that was not filled sets it to 0. After such a disappointment twice as
// many samples in a row must be filled, up to `longest_streak`: a program that fills only some of its spans soon gets
// none prepared. After samples in a row that were not filled, one, three, seven and so on spans, at most
// `longest_pause`, pass before the next sample: looking costs a system call.
//
// Lengths are taken together by the power of two. Thread safety: any thread; threads that race may lose a sample or
// spend some bytes of trust twice.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace tarn {

class fill_evidence {
 public:
  // Longer blocks are judged by first_touch::learn_from().
  static constexpr std::size_t longest = 4 * mib;
  static constexpr std::size_t heap_divisor = 8;
  // A sample is filled if at most one of so many pages is not backed.
  static constexpr std::size_t gap_divisor = 16;
  static constexpr std::uint32_t first_streak = 4;
  static constexpr std::uint32_t longest_streak = 64;
  static constexpr std::uint32_t longest_pause = 63;

  // Whether nearly all pages of the range, at most `longest` bytes, are backed. A system call, which a seccomp filter may
  // forbid.
  static bool is_filled(std::uintptr_t start, std::size_t bytes);

  // Whether a fresh span of `bytes` bytes in a heap of `heap_bytes` is likely to be filled. Makes a system call if a
  // sample is due: not under a lock. Under a seccomp filter, which may forbid the call: false.
  bool foresees(std::size_t bytes, std::size_t heap_bytes);

  // A fresh span has been handed out; `foreseen` is what foresees() said. Any lock may be held.
  void note_fresh(std::uintptr_t start, std::size_t bytes, bool foreseen);

 private:
  friend class fill_evidence_test_access;

  // Of all lengths with the same power of two. A sample may be freed and handed out again before it is looked at; what
  // is backed then was backed by the program just as well.
  struct record {
    std::atomic<std::uintptr_t> sample{0};  // the address of the sample; 0: the next fresh span becomes one
    std::atomic<std::size_t> sample_bytes{0};
    std::atomic<std::size_t> left{0};                 // bytes of trust not yet spent
    std::atomic<std::size_t> trust{0};                // the bytes of trust that the last sample gave
    std::atomic<std::uint32_t> streak{0};             // samples in a row that were filled
    std::atomic<std::uint32_t> wanted{first_streak};  // the streak that gives trust
    std::atomic<std::uint32_t> pause{0};              // spans that pass after a sample that was not filled
    std::atomic<std::uint32_t> passed{0};             // and those that have passed
  };

  static constexpr unsigned first_power = std::bit_width(page_size);
  static constexpr unsigned records = std::bit_width(longest) - first_power + 1;

  record& record_of(std::size_t bytes) {
    const auto power = static_cast<unsigned>(std::bit_width(bytes));
    return records_[power < first_power ? 0 : power - first_power];
  }

  record records_[records];
};

}  // namespace tarn
