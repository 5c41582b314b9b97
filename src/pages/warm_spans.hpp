// SPDX-License-Identifier: MIT
// warm_spans: a few whole spans of large blocks that the program has just freed, for its next requests of the same length. A
// buffer that is allocated and freed again and again so needs no lock, and its pages stay as they are; in the page heap each
// pair would cut a free span and join it again.
//
// A length is kept once a block of it was freed and then asked for again, at most `ways` times since the last period of decay,
// with no other length of its doubling freed in between; and of it as many spans as were asked for. So a program whose blocks
// differ, or whose number grows, keeps nothing back from its other requests and from blocks that grow in place. A span stays for
// one period of decay at most; then it goes to the page heap, where it counts as just freed.
//
// Thread safety: any thread may call any member, without locks. No thread owns a span in a slot; the thread whose take() or
// take_any() returns it is its only owner.
// Invariant: for the page heap a span in a slot is in use, backed from end to end: its state is `kept`, dirty_pages == pages,
// and the slot's length is pages. (validate())
// Bounds: `ways` spans of each doubling from least_pages to most_pages, and as many bytes of each as its owner allows.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "os/invariant.hpp"
#include "pages/span.hpp"

namespace tarn {

class warm_spans {
  struct doubling;

 public:
  static constexpr std::size_t least_pages = ((256 * kib) >> page_shift) + 1;
  static constexpr std::size_t most_pages = (4 * mib) >> page_shift;
  static constexpr std::size_t ways = 31;

  // A span of exactly so many pages, in state `kept`; the caller has it alone. Null: none.
  span* take(std::size_t pages) {
    if (!has_length(pages)) return nullptr;
    doubling& of = of_length(pages);
    const std::uint32_t end = of.end.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < end; ++i) {
      std::atomic<std::uint64_t>& slot = of.slots[i];
      std::uint64_t found = slot.load(std::memory_order_relaxed);
      // acquire: partner of the release in put().
      if (found >> length_shift == pages &&
          slot.compare_exchange_strong(found, 0, std::memory_order_acquire, std::memory_order_relaxed))
        return span_in(found);
    }
    // Would the last span of this doubling that was freed have served this request?
    const std::uint32_t freed = of.freed.load(std::memory_order_relaxed);
    if (freed % one_missed == pages && freed / one_missed <= ways)
      of.freed.store(freed + one_missed, std::memory_order_relaxed);
    return nullptr;
  }

  // Where spans of one length may wait: in the first `most` slots of their doubling.
  struct places {
    doubling* of;
    std::size_t most;  // 0: none is to be kept
  };
  // For a span of this length, which becomes free. `most_pages_kept`: of all spans in these places.
  places places_for(std::size_t pages, std::size_t most_pages_kept) {
    if (!has_length(pages)) return {nullptr, 0};
    doubling& of = of_length(pages);
    const std::uint32_t last = of.freed.load(std::memory_order_relaxed);
    const std::size_t requests = last / one_missed;
    if (last % one_missed == pages && requests - 1 < ways)
      return {&of, requests * pages <= most_pages_kept ? requests : most_pages_kept / pages};
    of.freed.store(static_cast<std::uint32_t>(pages), std::memory_order_relaxed);
    return {nullptr, 0};
  }

  // Keeps a span, which then belongs to the next taker. Requires: the invariant, and that the places are for its length.
  // False: there is no empty slot.
  static bool put(span* s, const places& into) {
    const std::uint64_t kept = address_of(s) | std::uint64_t{s->pages} << length_shift;
    for (std::size_t i = 0; i < into.most; ++i) {
      std::atomic<std::uint64_t>& slot = into.of->slots[i];
      std::uint64_t none = 0;
      // release: partner of the acquire in take() and take_any().
      if (slot.load(std::memory_order_relaxed) != 0 ||
          !slot.compare_exchange_strong(none, kept, std::memory_order_release, std::memory_order_relaxed))
        continue;
      if (into.of->end.load(std::memory_order_relaxed) <= i)
        into.of->end.store(static_cast<std::uint32_t>(i + 1), std::memory_order_relaxed);
      return true;
    }
    return false;
  }

  // A span of any length, in state `kept`, at the end of a period. Null: none is left.
  span* take_any() {
    for (doubling& of : doublings_) {
      for (std::atomic<std::uint64_t>& slot : of.slots) {
        if (slot.load(std::memory_order_relaxed) == 0) continue;
        // acquire: partner of the release in put().
        const std::uint64_t found = slot.exchange(0, std::memory_order_acquire);
        // Requests for the length are counted from zero again.
        of.freed.store(of.freed.load(std::memory_order_relaxed) % one_missed, std::memory_order_relaxed);
        of.end.store(0, std::memory_order_relaxed);
        if (found != 0) return span_in(found);
      }
    }
    return nullptr;
  }

  // Of the spans here, at some moment.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t pages = 0;
    for (const doubling& of : doublings_)
      for (const std::atomic<std::uint64_t>& slot : of.slots)
        pages += slot.load(std::memory_order_relaxed) >> length_shift;
    return pages << page_shift;
  }

  // False: none is here, or it was put here a moment ago.
  [[nodiscard]] bool may_have_any() const {
    std::uint32_t end = 0;
    for (const doubling& of : doublings_) end |= of.end.load(std::memory_order_relaxed);
    return end != 0;
  }

  // While no other thread uses it.
  void validate() const {
    for (const doubling& of : doublings_) {
      for (const std::atomic<std::uint64_t>& slot : of.slots) {
        const std::uint64_t kept = slot.load(std::memory_order_relaxed);
        if (kept == 0) continue;
        const span* const s = span_in(kept);
        TARN_INVARIANT("warm_spans", this, s->state.load(std::memory_order_relaxed) == span_state::kept);
        TARN_INVARIANT("warm_spans", this, s->pages == kept >> length_shift && s->dirty_pages == s->pages);
        TARN_INVARIANT("warm_spans", this, &of == &doublings_[index_of(s->pages)]);
      }
    }
  }

 private:
  static constexpr std::size_t doubling_count = 4;
  // A slot: the span's address, which has at most 48 bits where the system chooses it, and above it the length, so that
  // nobody else's span is looked at.
  static constexpr unsigned length_shift = 48;
  // In `freed`: a request for this length has found none since. Counted up to one more than can be kept.
  static constexpr std::uint32_t one_missed = 1U << 16;
  static_assert(most_pages < one_missed);

  // Of lengths in (n, 2n].
  struct alignas(cache_line) doubling {
    std::atomic<std::uint32_t> freed;  // the length of the last span that was not kept
    // A hint: a span at or behind it waits for the next put() there, or for the end of the period.
    std::atomic<std::uint32_t> end;
    std::atomic<std::uint64_t> slots[ways];
  };

  static constexpr bool has_length(std::size_t pages) {
    return pages - least_pages <= most_pages - least_pages;
  }
  static constexpr std::size_t index_of(std::size_t pages) {
    return static_cast<std::size_t>(std::bit_width(pages - 1) - std::bit_width(least_pages - 1));
  }
  doubling& of_length(std::size_t pages) {
    static_assert(index_of(least_pages) == 0 && index_of(most_pages) == doubling_count - 1);
    return doublings_[index_of(pages)];
  }
  static span* span_in(std::uint64_t kept) {
    return reinterpret_cast<span*>(kept & ((std::uint64_t{1} << length_shift) - 1));
  }

  doubling doublings_[doubling_count] = {};
};

}  // namespace tarn
