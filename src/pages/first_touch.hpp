// SPDX-License-Identifier: MIT
// first_touch: decides how fresh memory becomes backed: page by page, several pages in one call, or as huge pages.
//
// The first write to a fresh page is a page fault, which costs as much as hundreds of allocations. Fresh reservations
// are used from their low end; the frontier is the end of the highest page handed out so far. When a span moves the
// frontier, the memory ahead of it is prepared in proportion to the heap, so that memory prepared too early stays a
// small part of the heap:
//   - heap below `populate_from`: nothing is prepared. Small programs pay only for the pages that they touch.
//   - heap below `huge_from`: 1/32 of the heap is populated ahead, at most `populate_most`.
//   - heap of `huge_from` or more: huge pages are requested up to 1/8 of the heap ahead, at most `huge_most`. Not before
//     the frontier has moved by half of `huge_from`: in a heap of large blocks it may stop in the next huge page.
//
//   low end          frontier        prepared_           end_
//     |  handed out     |    prepared    |     untouched    |  handed out from the high end
//
// A span that lies behind end_, or reaches beyond it, was taken where other spans had been; the frontier stays where it is.
// Invariants: handed_out_ <= prepared_ <= end_; populated_end_ <= end_ and huge_end_ <= end_.
//
// Spans of 8 KiB to 4 MiB that the program fills (fill_evidence.hpp) are taken at the frontier like others. Large blocks and
// spans of large objects that it does not fill are taken from the high end, which is never prepared.
//
// A large block of `huge_block_from` or more is treated as one unit: in a heap of `huge_from` or more, huge pages are
// requested for exactly the block. This starts only after the program has shown that it fills such blocks, because one
// page written in a block that stays otherwise untouched would cost 2 MiB. The evidence is whether 2 MiB in the middle of
// a block that the program frees are backed, looked at once per `look_ms` at most. Blocks requested as zeroes are left alone: the program may mean to leave most of them untouched.
// Some systems give huge pages unasked (`everywhere`): 2 MiB then back the first byte written, and small programs would
// be mostly empty pages. So what a heap below `huge_from` reserves is opted out, and the rules above hold on such a
// system, too; only large blocks there get what the system gives them, from the first one on.
// A forked child shares its parent's pages. What it has inherited does not count as its heap, and no huge pages are requested
// ahead of the frontier any more: the first small block that it takes from fresh memory would back 2 MiB of its own.
// Whether huge pages are cheap depends on the system's free memory: the host of a virtual machine may have taken the
// large free ranges away, and touching a huge page then costs far more than touching its pages one by one. So the first
// fresh huge page of each timed plan is touched at once. If that is slow, the rest of the plan and all plans within
// `pause_ms` use ordinary pages; if not, plans within `trusted_ms` are not timed.
// In a heap of `touch_ahead_from` or more, the first one is left to the program's own write, and the second one is touched and
// timed, by the background thread if there is one: page_heap::touch_ahead(). It goes back when the frontier stands still.
// Figures: docs/design/0003. Thread safety: members ending in _locked are guarded by the page heap's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "os/invariant.hpp"
#include "os/memory.hpp"
#include "pages/fill_evidence.hpp"

namespace tarn {

enum class huge_pages : std::uint8_t { never, automatic, always };

// What to do before a span is handed out, after the page heap's lock has been released.
struct touch_plan {
  std::uintptr_t huge_start = 0;
  std::size_t huge_bytes = 0;
  // The huge page from here on is touched at once, and the time that it takes is measured. 0: none is.
  std::uintptr_t timed_start = 0;
  std::uintptr_t populate_start = 0;
  std::size_t populate_bytes = 0;
  // The second huge page is to be touched ahead (claim_next_locked()).
  bool has_next = false;

  [[nodiscard]] bool is_empty() const { return huge_bytes == 0 && populate_bytes == 0; }
};

class first_touch {
 public:
  static constexpr std::size_t populate_from = 1 * mib;
  static constexpr std::size_t populate_most = 64 * kib;
  static constexpr std::size_t huge_from = 16 * mib;
  static constexpr std::size_t huge_most = 64 * mib;
  static constexpr std::size_t huge_block_from = 4 * mib;
  // A huge page whose touch takes longer is slow: 2 MiB touched page by page take 600 to 1000 µs.
  static constexpr std::int64_t slow_touch_us = 800;
  static constexpr std::int64_t pause_ms = 1000;
  // How long a fast touch is evidence for others. Slow ones in this time are what it may cost at most.
  static constexpr std::int64_t trusted_ms = 20;
  // One huge page more than is in use is then a small part of the heap.
  static constexpr std::size_t touch_ahead_from = 256 * mib;
  // Interval between two looks at freed blocks, and how long one result is used.
  static constexpr std::int64_t look_ms = 500;
  static constexpr std::int64_t filled_ms = 2000;

  constexpr first_touch() = default;

  void validate_locked() const {
    TARN_INVARIANT("first_touch", this, handed_out_ <= prepared_);
    TARN_INVARIANT("first_touch", this, prepared_ <= end_);
    TARN_INVARIANT("first_touch", this, populated_end_ <= end_);
    TARN_INVARIANT("first_touch", this, huge_end_ <= end_);
  }

  // Whether the system backs memory by huge pages without being asked (its setting is `always`).
  void set_everywhere(bool everywhere) { everywhere_.store(everywhere, std::memory_order_relaxed); }
  [[nodiscard]] bool everywhere() const { return everywhere_.load(std::memory_order_relaxed); }
  void set_mode(huge_pages mode) { mode_.store(mode, std::memory_order_relaxed); }

  // [start, start + bytes) is about to become a reservation of a heap of `heap_bytes`: opts it out of the huge pages
  // that the system gives unasked, if the heap is small. True: done. Makes a system call: not under a lock.
  bool opt_out(std::uintptr_t start, std::size_t bytes, std::size_t heap_bytes) const;
  void opted_out_locked(std::uintptr_t start, std::size_t bytes);
  // A new reservation, all of it fresh.
  void reserved_locked(std::uintptr_t start, std::size_t bytes) {
    left_behind_ += ahead_at_frontier();
    prepared_ = handed_out_ = populated_end_ = huge_end_ = start;
    end_ = start + bytes;
    next_ = 0;
  }

  // The free range [start, end) leaves the heap, or is handed out but not at the frontier. Nothing behind it in the newest
  // reservation is prepared any more.
  void withhold_locked(std::uintptr_t start, std::uintptr_t end);

  // Whether the process is a forked child that has hardly grown itself.
  [[nodiscard]] bool is_young_child(std::size_t heap_bytes) const {
    return inherited_ != 0 && heap_bytes < inherited_ + huge_from;
  }
  // In a forked child, whose heap has `heap_bytes` bytes in use. Makes a system call.
  void begin_child_locked(std::size_t heap_bytes);

  // Which fresh spans the program will fill.
  fill_evidence& evidence() { return evidence_; }

  // [start, start + bytes) is about to be handed out; `heap_bytes` bytes of the heap are in use.
  touch_plan plan_locked(std::uintptr_t start, std::size_t bytes, std::size_t heap_bytes);

  // The same for a large block that the program will fill and of which at least half is fresh memory, from `fresh` on.
  [[nodiscard]] touch_plan plan_block(std::uintptr_t start, std::size_t bytes, std::uintptr_t fresh,
                                      std::size_t heap_bytes) const;

  // Carries a plan out. Makes system calls: not under a lock.
  void carry_out(const touch_plan& plan);

  // The huge page that is to be touched ahead of the frontier, once; 0: none, or the program has come first.
  std::uintptr_t claim_next_locked();
  // Touches a huge page that has been asked for, and measures the time. False: it was slow. Makes system calls: not under a
  // lock.
  bool touch_huge(std::uintptr_t start);
  // The part behind `start` of what huge pages were asked for; gives it up. opt_back() makes it ordinary pages, without a lock.
  os::address_range give_up_rest_locked(std::uintptr_t start);
  void opt_back(const os::address_range& rest);

  // Whole huge pages that are backed ahead of the frontier, if it stands where it stood at the last call, or `anyway`: the program
  // may never come there.
  os::address_range idle_ahead_locked(bool anyway);
  // The heap gives them back. They will be prepared again.
  void give_up_ahead_locked();

  // Reports how long touching one huge page took. A slow touch stops the use of huge pages for `pause_ms`.
  void note_touch_time(std::int64_t us);

  // A large block is being freed: looks whether the program had filled it (note_filled()).
  void learn_from(std::uintptr_t start, std::size_t bytes);

  // Whether this program fills its large blocks; the answer holds for `filled_ms`.
  void note_filled(bool filled);

  // Whether memory of the heap may be backed by huge pages.
  [[nodiscard]] bool may_have_huge() const {
    return huge_advised() != 0 || everywhere_.load(std::memory_order_relaxed);
  }

  // The range is being purged: opts every huge page that it overlaps out of huge pages. Otherwise reusing a few bytes
  // would back 2 MiB again, and the system (khugepaged) would fill the gaps between objects. Requires: the rest of
  // these huge pages belongs to the heap.
  void withdraw_huge(std::uintptr_t start, std::size_t bytes) const;
  // The same for a range in a mapping of its own, of which only [low, high) is free: the rest of the huge pages at its
  // ends may be a live block or a mapping of the program.
  void withdraw_huge_within(std::uintptr_t start, std::size_t bytes, std::uintptr_t low,
                            std::uintptr_t high) const;

  // An upper bound of the bytes that are backed although they were never handed out: populated ahead, or the rest of a
  // huge page. Bytes that the frontier skipped stay counted even if they are handed out later.
  [[nodiscard]] std::size_t ahead_locked() const { return left_behind_ + ahead_at_frontier(); }

  [[nodiscard]] std::size_t huge_advised() const { return huge_advised_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t populated() const { return populated_.load(std::memory_order_relaxed); }

 private:
  friend class first_touch_test_access;

  [[nodiscard]] std::size_t ahead_at_frontier() const;
  [[nodiscard]] bool wants_huge(std::size_t heap_bytes) const;
  [[nodiscard]] bool is_trusted() const;
  // The heap, without what it has inherited, has `heap_bytes` bytes in use. Whether there is one.
  bool find_next_locked(std::size_t heap_bytes);
  [[nodiscard]] bool was_opted_out(std::uintptr_t start) const;
  void ask_for_huge(const touch_plan& plan);

  fill_evidence evidence_;
  std::atomic<huge_pages> mode_{huge_pages::automatic};
  // Addresses in the newest reservation.
  std::uintptr_t prepared_ = 0;       // everything below has been prepared
  std::uintptr_t end_ = 0;            // of the reservation
  std::uintptr_t handed_out_ = 0;     // the frontier: highest end of a dense span
  std::uintptr_t populated_end_ = 0;  // end of the populated memory
  std::uintptr_t huge_end_ = 0;       // end of the memory for which huge pages were requested
  // All that was opted out lies between them.
  std::uintptr_t opted_out_start_ = UINTPTR_MAX;
  std::uintptr_t opted_out_end_ = 0;
  std::uintptr_t next_ = 0;   // the huge page that is to be touched ahead, until it is claimed
  std::uintptr_t stood_ = 0;  // the frontier at the last idle_ahead_locked()
  std::atomic<std::int64_t> paused_until_{0};
  std::atomic<std::int64_t> trusted_until_{0};
  std::atomic<std::int64_t> next_look_{0};
  std::atomic<std::int64_t> filled_until_{0};
  std::size_t inherited_ = 0;    // bytes of the heap that were in use when the process was forked
  std::size_t dense_ = 0;        // bytes handed out at the frontier so far
  std::size_t left_behind_ = 0;  // bytes prepared that the frontier skipped or left in an older reservation
  std::atomic<bool> everywhere_{false};
  std::atomic<std::size_t> huge_advised_{0};
  std::atomic<std::size_t> populated_{0};
};

}  // namespace tarn
