// SPDX-License-Identifier: MIT
// span: a run of pages with one purpose, which its state names: free, cut into objects or slots, one large block, …
//
// The structure lies in metadata memory and is type-stable: a stale pointer to a span still points to a span structure,
// so a reader that comes too late sees a wrong state, never foreign bytes.
//
// Objects of a cut span end where the span ends. The remainder lies before the first object, so no address behind the
// last object can be taken for another object:
//
//    start                                                              end
//    | remainder | object 0 | object 1 | object 2 | …  | object capacity-1 |
//    free_bits:       0          1          0      …            1
//
// Bit i of free_bits is set if object i is free and in the span, clear if it is live or in a magazine. free_objects is
// the number of set bits (objects::validate()). Both, and `list`, are guarded by the lock of the class's depot;
// free_objects is also read without it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "os/invariant.hpp"
#include "pages/linked_list.hpp"

namespace tarn {

enum class span_state : std::uint8_t {
  // It has no pages in the heap: its structure is not in use, or the page heap is unmapping it. The page map leads to it
  // from stale entries only. The first state, because structures that are not in use may read as zeros.
  no_memory,
  free,     // in the page heap's lists
  purging,  // in transit: to the page heap, being purged, or to the next pool of its type (hardened build)
  large,    // one large block
  cut,      // cut into objects of a size class
  pooled,   // cut into slots of a typed pool
  arena,    // pages of an arena
  buffer,   // one buffer of a buffer pool
  kept,     // whole and backed, waiting for the next buffer of its pool
  scoped,   // memory of a scope, or of an arena that the program has made (src/fronts/scopes)
  sampled,  // blocks of classes that the heap profile follows (src/samples/followed)
};

// At which ends of a span its reservation ends, too, and whether a guard lies there: bits of span::borders. Without a
// guard the addresses behind a border may belong to anybody.
inline constexpr std::uint8_t border_before = 1;
inline constexpr std::uint8_t border_behind = 2;
inline constexpr std::uint8_t guard_before = 4;
inline constexpr std::uint8_t guard_behind = 8;
inline constexpr std::uint8_t all_before = border_before | guard_before;
inline constexpr std::uint8_t all_behind = border_behind | guard_behind;

struct span;
struct live_sample;

// A number that is written under a lock, and is also read without it: then it is the value of some moment.
class open_count {
 public:
  constexpr open_count() = default;
  operator std::uint16_t() const { return value_.load(std::memory_order_relaxed); }
  open_count& operator=(std::uint16_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }

 private:
  std::atomic<std::uint16_t> value_{0};
};

// Of a kept span: its neighbours in the order of age, since when it is kept, and whether all its bytes are zero.
struct kept_place {
  span* older;
  span* newer;
  std::int64_t since_ms;
  bool is_zero;
};

struct alignas(separation) span {
  constexpr span() = default;
  constexpr explicit span(std::uint8_t its_home) : home(its_home) {}

  std::uintptr_t start = 0;
  span* next = nullptr;
  span* previous = nullptr;
  std::uint32_t pages = 0;
  union {
    // Pages whose backing is not clean. Of a span in use, unless it is cut: the number when it was handed out.
    std::uint32_t dirty_pages = 0;
    // cut: this object and those behind it have never been taken from the span, nor has anybody had their memory before
    // (first_use.hpp). They are free and have no mark (free_mark.hpp). Guarded by the depot's lock.
    std::uint32_t first_unused;
  };
  std::uint64_t* free_bits = nullptr;
  // cut, pooled: the slot_depot that has the span, written under its lock; null while none has. buffer, kept: the
  // buffer_core. scoped: the scope_region. sampled, large: what heap_samples knows of it; null for a large block that is
  // not sampled. In transit (spans_in_transit.hpp): the thread that purges or unmaps it.
  std::atomic<void*> owner{nullptr};
  std::uint16_t capacity = 0;  // objects
  open_count free_objects;
  // The span stays in its depot list while free_objects is in [least_in_list, most_in_list]; set by the depot.
  std::uint16_t least_in_list = 0;
  std::uint16_t most_in_list = 0;
  std::uint8_t size_class = 0;
  std::uint8_t list = 0;  // of its depot; free: the walk in which it became free (page_heap)
  std::atomic<span_state> state{span_state::free};
  // It lies in a mapping made for one large block: when it is free, its address space is unmapped too.
  bool own_mapping : 1 = false;
  // Of a span in use: its memory had never been handed out before. Written by the page heap when it hands the span out.
  bool is_first_use : 1 = false;
  // Where its reservation ends: border_before to guard_behind. A guard takes the guard_bytes before `start` or behind
  // end() and belongs to the page heap. Guarded by the page heap's lock.
  std::uint8_t borders = 0;
  // cut: the home of the depot that has the span (class_depots.hpp). Written under the locks of the old depot and the new.
  std::atomic<std::uint8_t> home{0};
  union {
    // cut, pooled: free_objects when its idle pages were dropped, if no slot has been taken since, else 0. cut: while they
    // are dropped, more than any span has (free_mark.hpp).
    std::uint16_t free_when_looked = 0;
    // Span of grains: it has no run of this many free grains, or more; 0: unknown. Guarded by the depot's lock.
    std::uint16_t no_run_of;
  };

  // The objects' bits if they fit; `free_bits` then points here.
  static constexpr std::size_t inline_words = 8;
  union {
    alignas(cache_line) std::uint64_t inline_bits[inline_words] = {};
    kept_place kept;  // in state `kept`; guarded by the buffer pool's lock
    // scoped, of one block with pages of its own: what heap_samples knows of it; null: it is not sampled. Belongs to the
    // block's owner.
    live_sample* sample;
  };

  [[nodiscard]] std::size_t bytes() const { return std::size_t{pages} << page_shift; }
  [[nodiscard]] std::uintptr_t end() const { return start + bytes(); }
  [[nodiscard]] bool has_border(std::uint8_t border) const { return (borders & border) != 0; }
  [[nodiscard]] bool contains(std::uintptr_t address) const { return address - start < bytes(); }

  // It describes no pages any more. Only the state says so, since another thread may be reading the other members under
  // the page heap's lock; who has found the span by its address looks at the state, too.
  void retire() { state.store(span_state::no_memory, std::memory_order_relaxed); }
  [[nodiscard]] bool is_retired() const {
    return state.load(std::memory_order_relaxed) == span_state::no_memory;
  }
};

static_assert(sizeof(span) == separation);

// Of two neighbours that become one. Two reservations may lie side by side if they have no guards; they are one from
// then on.
constexpr std::uint8_t joined_borders(std::uint8_t first, std::uint8_t second) {
  return static_cast<std::uint8_t>((first & all_before) | (second & all_behind));
}

using span_list = linked_list<span>;

}  // namespace tarn
