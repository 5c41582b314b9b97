// SPDX-License-Identifier: MIT
// tier_central: variant (a): the free bits belong to nobody but the class's lock. With several stripes each
// span
//   belongs, by its number, to one of several locks; a refill stays with one stripe until that is dry.
// Owner: free_state_owner. Thread safety: every call takes a stripe's lock.
// Invariant (under its stripe's lock): free_count == popcount(free_bits); a span is listed if and only if
//   free_count > 0; a span with every object free has left for the page heap.
#pragma once

#include <array>
#include <bit>

#include "mini_span_heap.hpp"

namespace experiment {

template <std::size_t object_bytes, unsigned stripe_count = 1>
class central_tier {
 public:
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  struct alignas(64) span {
    char* begin = nullptr;
    std::uint32_t free_count = 0;
    bool in_list = false;
    span* previous = nullptr;
    span* next = nullptr;
    std::array<std::uint64_t, capacity / 64> free_bits{};
  };
  struct local {
    unsigned stripe = 0;
  };
  static constexpr const char* name = stripe_count == 1 ? "a central lock" : "a, 4 stripes";
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
      fresh->free_bits.fill(~std::uint64_t{0});
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
      got += take(*first, out + got, want - got);
      if (first->free_count == 0) from.partial.remove(first);
    }
    return got;
  }
  std::size_t take(span& from, void** out, std::size_t want) {
    std::size_t got = 0;
    for (std::size_t word = 0; word < from.free_bits.size() && got < want; ++word) {
      std::uint64_t bits = from.free_bits[word];
      for (; bits != 0 && got < want; bits &= bits - 1) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(bits));
        out[got++] = from.begin + (word * 64 + bit) * object_bytes;
      }
      from.free_bits[word] = bits;
    }
    from.free_count -= static_cast<std::uint32_t>(got);
    return got;
  }
  void put_all(stripe& to, void** in, std::size_t count, span*& empty) {
    const std::lock_guard guard(to.lock);
    for (std::size_t index = 0; index < count; ++index) put(to, in[index], empty);
  }
  void put(stripe& into, void* object, span*& empty) {
    span& to = *spans_.span_of(object);
    const std::size_t index = static_cast<std::size_t>(static_cast<char*>(object) - to.begin) / object_bytes;
    std::uint64_t& word = to.free_bits[index / 64];
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((word & bit) != 0) die("double free");
    word |= bit;
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

template <std::size_t object_bytes>
using striped_tier = central_tier<object_bytes, 4>;

// One lock; a name of its own, so that it can stand where a template of one parameter is asked for.
template <std::size_t object_bytes>
using single_lock_tier = central_tier<object_bytes, 1>;

}  // namespace experiment
