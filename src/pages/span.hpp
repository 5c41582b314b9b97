// SPDX-License-Identifier: MIT
// span: a run of pages with one purpose: free, cut into objects of one size class, or one large block.
//
// The structure lies in metadata memory and is type-stable: a stale pointer to a span still points to one, so
// a reader that came too late sees a wrong state, never foreign bytes.
//
// Objects. Each object of a cut span has one byte in `objects`:
//   object_free     the object is free and in the span;
//   no_object       behind the last object;
//   object_away     in a magazine that no thread has (central::mark);
//   anything else   it is live, or in a magazine: the byte is then the magazine slot it was last put into,
//                   which makes a double free visible (thread/thread_cache.hpp).
// Nobody owns the bytes: who frees an object stores to its byte without a lock, and who refills from a span
// looks for free bytes under its depot's lock. `free_objects` counts them, a moment late, under that lock; it
// says in which of the depot's lists the span is (central/central.cpp has the protocol).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace tarn {

enum class span_state : std::uint8_t {
  free,     // in the page heap
  purging,  // on its way to the page heap or the system; in no list
  large,
  cut,  // into objects of a class
};

inline constexpr std::uint8_t object_free = 255;
inline constexpr std::uint8_t no_object = 254;
inline constexpr std::uint8_t object_away = 253;

struct alignas(separation) span {
  // What a free() of an object reads.
  std::uintptr_t start = 0;
  std::atomic<std::uint8_t>* objects = nullptr;
  std::uint64_t reciprocal = 0;  // of the object size: see size_class.hpp
  std::uint16_t capacity = 0;    // objects
  std::uint8_t size_class = 0;
  std::atomic<span_state> state{span_state::free};

  std::uint32_t pages = 0;
  std::uint32_t dirty_pages = 0;  // of a free span: those backed by memory
  // A part of it was filled by os::move_pages.
  bool moved = false;
  // Of a cut span, guarded by its depot's lock.
  std::uint8_t list = 0;
  std::int16_t free_objects = 0;
  span* next = nullptr;
  span* previous = nullptr;

  // The objects' bytes, if they are few: `objects` then points here.
  static constexpr std::size_t inline_bytes = 64;
  alignas(cache_line) std::atomic<std::uint8_t> inline_objects[inline_bytes] = {};

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
