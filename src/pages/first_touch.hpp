// SPDX-License-Identifier: MIT
// first_touch: decides how fresh memory becomes backed: page by page, several pages in one call, or as huge pages.
//
// The first write to a fresh page is a fault, as dear as hundreds of allocations. Fresh reservations are used from
// their low end; the frontier is the highest page handed out so far. When a span moves it, memory ahead of it is
// prepared in proportion to the heap, so that what is prepared too early stays a small part of it:
//   - heap below `populate_from`: nothing. Small programs pay for the pages they touch, not for one more.
//   - below `huge_from`: populated ahead by 1/32 of the heap, at most 256 KiB.
//   - above: huge pages asked for, up to 1/8 of the heap ahead.
// A large block of `huge_block_from` or more is one whole: in a heap of `huge_from`, huge pages are asked for all of it,
// so that it never has more behind it than its own length. Not before the program has shown that it fills such blocks:
// a page written in one that stays otherwise untouched would cost 2 MiB. What shows it is how long the system takes to
// drop 2 MiB of the inside of a block that the program frees, looked at twice a second at most. Blocks that were asked
// for as zeroes are left alone: they may be meant to stay mostly untouched.
// Whether huge pages are cheap depends on the memory that the system has left: on a virtual machine its host may have
// taken the large free ranges away, and each touch of one is then far dearer than page by page. So the first huge page
// of each plan is touched at once, and timed. If it is dear, the rest of the plan and all plans for a while do without.
// Figures: docs/design/0003. Thread safety: members ending in _locked are guarded by the page heap's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace tarn {

enum class huge_pages : std::uint8_t { never, automatic, always };

// What to do, once the lock is free, before a span is handed out.
struct touch_plan {
  std::uintptr_t huge_start = 0;
  std::size_t huge_bytes = 0;
  bool timed = true;  // the first huge page is touched, and timed
  std::uintptr_t populate_start = 0;
  std::size_t populate_bytes = 0;
};

class first_touch {
 public:
  static constexpr std::size_t populate_from = 1 * mib;
  static constexpr std::size_t populate_most = 256 * kib;
  static constexpr std::size_t huge_from = 16 * mib;
  static constexpr std::size_t huge_most = 64 * mib;
  static constexpr std::size_t huge_block_from = 4 * mib;
  // 2 MiB touched page by page are 600 to 1000 µs.
  static constexpr std::int64_t slow_touch_us = 800;
  static constexpr std::int64_t pause_ms = 1000;
  // How often freed blocks are looked at, and how long what they show holds.
  static constexpr std::int64_t look_ms = 500;
  static constexpr std::int64_t filled_ms = 2000;

  constexpr first_touch() = default;

  // Whether the system makes huge pages also where nobody asks.
  void set_everywhere(bool everywhere) { everywhere_.store(everywhere, std::memory_order_relaxed); }
  [[nodiscard]] bool everywhere() const { return everywhere_.load(std::memory_order_relaxed); }
  void set_mode(huge_pages mode) { mode_.store(mode, std::memory_order_relaxed); }

  // A new reservation, all of it fresh.
  void reserved_locked(std::uintptr_t start, std::size_t bytes) {
    left_behind_ += ahead_at_frontier();
    prepared_ = handed_out_ = populated_end_ = huge_end_ = start;
    end_ = start + bytes;
  }

  // [start, start + bytes) is about to be handed out, in a heap of `heap_bytes` bytes in use.
  touch_plan plan_locked(std::uintptr_t start, std::size_t bytes, std::size_t heap_bytes);

  // The same for a large block that will be filled, most of it fresh.
  [[nodiscard]] touch_plan plan_block(std::uintptr_t start, std::size_t bytes, std::size_t heap_bytes) const;

  // Carries a plan out. Calls the system.
  void carry_out(const touch_plan& plan);

  // Touching a huge page has taken so long.
  void note_touch_time(std::int64_t us);

  // A large block is freed: whether it was filled says whether the next ones ask for huge pages. May purge a part of it.
  void learn_from(std::uintptr_t start, std::size_t bytes);

  // Large blocks are filled by this program, as far as is known just now.
  void note_filled(bool filled);

  // The range is being purged: each huge page that it touches becomes an ordinary place. Or a few bytes used again
  // would keep 2 MiB backed, and the system (khugepaged) would fill the gaps that are left between objects.
  // Requires that what lies beside, within the same huge pages, is the heap's.
  void withdraw_huge(std::uintptr_t start, std::size_t bytes) const;
  // The same for a range in a mapping of its own, of which [low, high) is free: what lies beside may be a live block, or a
  // mapping of the program's.
  void withdraw_huge_within(std::uintptr_t start, std::size_t bytes, std::uintptr_t low,
                            std::uintptr_t high) const;

  // At most so many bytes are backed although they were never handed out: populated ahead, or the rest of a huge
  // page. What is left behind the frontier is counted for good, be it used later.
  [[nodiscard]] std::size_t ahead_locked() const { return left_behind_ + ahead_at_frontier(); }

  [[nodiscard]] std::size_t huge_advised() const { return huge_advised_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t populated() const { return populated_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::size_t ahead_at_frontier() const;
  [[nodiscard]] bool wants_huge(std::size_t heap_bytes) const;
  void ask_for_huge(const touch_plan& plan);

  std::atomic<huge_pages> mode_{huge_pages::automatic};
  std::uintptr_t prepared_ = 0;  // all below it, in the newest reservation, needs nothing any more
  std::uintptr_t end_ = 0;
  std::uintptr_t handed_out_ = 0;     // the highest end of a dense span in the newest reservation
  std::uintptr_t populated_end_ = 0;  // of what was populated there
  std::uintptr_t huge_end_ = 0;       // of what huge pages were asked for there
  std::atomic<std::int64_t> paused_until_{0};
  std::atomic<std::int64_t> next_look_{0};
  std::atomic<std::int64_t> filled_until_{0};
  std::size_t left_behind_ = 0;  // bytes prepared that the frontier went past or left in an older reservation
  std::atomic<bool> everywhere_{false};
  std::atomic<std::size_t> huge_advised_{0};
  std::atomic<std::size_t> populated_{0};
};

}  // namespace tarn
