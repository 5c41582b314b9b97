// SPDX-License-Identifier: MIT
// span: a run of pages with one purpose: free, cut into objects of one size class, or one large block.
//
// The structure lies in metadata memory and is type-stable: a stale pointer to a span still points to one, so
// a reader that came too late sees a wrong state, never foreign bytes.
//
// Objects of a cut span end where the span ends, so that what is left over lies before the first one, and no
// address behind the last one could be taken for another. Each has a bit in `free_bits`: set if it is free and
// in the span, clear if it is live or in a magazine. The bits, `free_objects`, which counts them, and `list` are
// guarded by the lock of the class's depot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace tarn {

enum class span_state : std::uint8_t {
  free,     // in the page heap
  purging,  // on its way to the page heap, to the system, or to the next typed pool of its kind (hardened build)
  large,
  cut,     // into objects of a class
  pooled,  // into objects of a typed pool
  arena,   // given out by the page
  buffer,  // one buffer of a buffer pool
  kept,    // whole and backed, for the next buffer of its pool
};

struct span;

// Of a kept span: its place in the order of age, since when it lies there, and whether all its bytes are zero.
struct kept_place {
  span* older;
  span* newer;
  std::int64_t since_ms;
  bool is_zero;
};

struct alignas(separation) span {
  std::uintptr_t start = 0;
  span* next = nullptr;
  span* previous = nullptr;
  std::uint32_t pages = 0;
  std::uint32_t dirty_pages = 0;  // of a free span: those backed by memory
  std::uint64_t* free_bits = nullptr;
  // Of a pooled span: its shard; written under that one's lock. Of one that is being purged: the thread that does it.
  std::atomic<void*> owner{nullptr};
  std::uint16_t capacity = 0;  // objects
  std::uint16_t free_objects = 0;
  // While it has so many free objects, the span stays in the list it is in; set by the depot.
  std::uint16_t least_in_list = 0;
  std::uint16_t most_in_list = 0;
  std::uint8_t size_class = 0;
  std::uint8_t list = 0;
  std::atomic<span_state> state{span_state::free};
  // It lies in a mapping that was made for one large block: its address space goes back with its memory.
  bool own_mapping = false;
  // Of a pooled span: the walk that last looked for idle pages in it, and how many slots were free then, none handed
  // out since.
  std::uint8_t looked_at = 0;
  union {
    std::uint16_t free_when_looked = 0;
    // Of a span of grains: no run of so many free ones, or more, is in it; 0: not known. Guarded by its depot's lock.
    std::uint16_t no_run_of;
  };

  // The objects' bits, unless they are too many: `free_bits` then points here.
  static constexpr std::size_t inline_words = 8;
  union {
    alignas(cache_line) std::uint64_t inline_bits[inline_words] = {};
    kept_place kept;  // in state `kept`; guarded by its pool's lock
  };

  [[nodiscard]] std::size_t bytes() const { return std::size_t{pages} << page_shift; }
  [[nodiscard]] std::uintptr_t end() const { return start + bytes(); }
  [[nodiscard]] bool contains(std::uintptr_t address) const { return address - start < bytes(); }
};

static_assert(sizeof(span) == separation);

// Doubly linked, through span::next and span::previous.
class span_list {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] span* front() const { return head_; }
  [[nodiscard]] span* back() const { return tail_; }

  void push_front(span* s) {
    s->previous = nullptr;
    s->next = head_;
    (head_ != nullptr ? head_->previous : tail_) = s;
    head_ = s;
  }
  void push_back(span* s) {
    s->next = nullptr;
    s->previous = tail_;
    (tail_ != nullptr ? tail_->next : head_) = s;
    tail_ = s;
  }
  void remove(span* s) {
    (s->previous != nullptr ? s->previous->next : head_) = s->next;
    (s->next != nullptr ? s->next->previous : tail_) = s->previous;
    s->next = s->previous = nullptr;
  }
  span* pop_front() {
    span* s = head_;
    if (s != nullptr) remove(s);
    return s;
  }

 private:
  span* head_ = nullptr;
  span* tail_ = nullptr;
};

}  // namespace tarn
