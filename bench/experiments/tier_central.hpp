// SPDX-License-Identifier: MIT
// tier_central: variant (a): the free bits belong to nobody but the class's lock. With several stripes each
// span
//   belongs, by its number, to one of several locks; a refill stays with one stripe until that is dry.
// Owner: free_state_owner. Thread safety: every call takes a stripe's lock.
// Invariant (under its stripe's lock): free_count == the number of objects marked free; a span is listed if
// and only if
//   free_count > 0; a span with every object free has left for the page heap.
#pragma once

#include "span_states.hpp"

namespace experiment {

template <typename state_type, unsigned stripe_count, const char* title>
class central_tier {
 public:
  static constexpr std::size_t capacity = state_type::capacity;
  static constexpr std::size_t object_bytes = span_bytes / capacity;
  struct alignas(64) span {
    char* begin = nullptr;
    std::uint32_t free_count = 0;
    bool in_list = false;
    span* previous = nullptr;
    span* next = nullptr;
    state_type state;
  };
  struct local {
    unsigned stripe = 0;
  };
  static constexpr const char* name = title;
  static constexpr bool shares = true;

  std::size_t refill(local& here, void** out, std::size_t want) {
    std::size_t got = 0;
    for (unsigned tries = 0; got < want && tries < stripe_count; ++tries) {
      stripe& from = stripes_[here.stripe];
      const std::lock_guard guard(from.lock);
      got += drain(from, out + got, want - got);
      if (got < want) here.stripe = (here.stripe + 1) % stripe_count;
    }
    while (got < want) {
      span* fresh = spans_.take();
      fresh->state.fill();
      fresh->free_count = capacity;
      stripe& to = stripe_of(fresh);
      const std::lock_guard guard(to.lock);
      to.partial.push_back(fresh);
      got += drain(to, out + got, want - got);
    }
    return got;
  }

  void flush(local&, void** in, std::size_t count) {
    void* sorted[stripe_count][magazine_capacity];
    std::size_t counts[stripe_count] = {};
    // The misses are taken before the lock, not under it.
    for (std::size_t index = 0; index < count; ++index) {
      span* to = spans_.span_of(in[index]);
      __builtin_prefetch(to, 1);
      const auto offset = static_cast<char*>(in[index]) - to->begin;
      __builtin_prefetch(to->state.line_of(static_cast<std::size_t>(offset) / object_bytes), 1);
      if constexpr (stripe_count > 1) {
        const std::size_t number = number_of(to);
        sorted[number][counts[number]++] = in[index];
      }
    }
    span* empty = nullptr;
    if constexpr (stripe_count == 1) {
      put_all(stripes_[0], in, count, empty);
    } else {
      for (unsigned number = 0; number < stripe_count; ++number)
        if (counts[number] != 0) put_all(stripes_[number], sorted[number], counts[number], empty);
    }
    while (empty != nullptr) {
      span* next = empty->next;
      spans_.give_back(empty);
      empty = next;
    }
  }

  void thread_end(local&) {}
  span_heap<span>& spans() { return spans_; }

 private:
  struct alignas(64) stripe {
    short_lock lock;
    span_list<span> partial;
  };

  static std::size_t number_of(const span* which) {
    return (reinterpret_cast<std::uintptr_t>(which->begin) >> span_shift) % stripe_count;
  }
  stripe& stripe_of(const span* which) { return stripes_[number_of(which)]; }

  std::size_t drain(stripe& from, void** out, std::size_t want) {
    std::size_t got = 0;
    while (got < want && !from.partial.empty()) {
      span* first = from.partial.front();
      const std::size_t taken = first->state.take(first->begin, out + got, want - got);
      first->free_count -= static_cast<std::uint32_t>(taken);
      got += taken;
      if (first->free_count == 0) from.partial.remove(first);
    }
    return got;
  }
  void put_all(stripe& to, void** in, std::size_t count, span*& empty) {
    const std::lock_guard guard(to.lock);
    for (std::size_t index = 0; index < count; ++index) put(to, in[index], empty);
  }
  void put(stripe& into, void* object, span*& empty) {
    span& to = *spans_.span_of(object);
    const std::size_t index = static_cast<std::size_t>(static_cast<char*>(object) - to.begin) / object_bytes;
    to.state.mark_free(index);
    if (to.free_count++ == 0) into.partial.push_back(&to);
    if (to.free_count == capacity) {
      into.partial.remove(&to);
      to.next = empty;
      empty = &to;
    }
  }

  stripe stripes_[stripe_count];
  span_heap<span> spans_;
};

inline constexpr char central_name[] = "a central lock";
inline constexpr char striped_name[] = "a, 4 stripes";
inline constexpr char central_bytes_name[] = "a, bytes for bits";

template <std::size_t object_bytes>
using single_lock_tier = central_tier<plain_state<object_bytes>, 1, central_name>;
template <std::size_t object_bytes>
using striped_tier = central_tier<plain_state<object_bytes>, 4, striped_name>;
// Tells the price of bytes apart from the price of doing without the lock.
template <std::size_t object_bytes>
using locked_bytes_tier = central_tier<byte_state<object_bytes>, 1, central_bytes_name>;

}  // namespace experiment
