// SPDX-License-Identifier: MIT
// tier_central: variant (a): the free bits belong to nobody but the class's lock.
// Owner: free_state_owner. Thread safety: every call takes the lock.
// Invariant (under the lock): free_count == popcount(free_bits); a span is listed if and only if
//   free_count > 0; a span with every object free has left for the page heap.
#pragma once

#include <array>
#include <bit>

#include "mini_span_heap.hpp"

namespace experiment {

template <std::size_t object_bytes>
class central_tier {
 public:
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  struct span {
    std::array<std::uint64_t, capacity / 64> free_bits{};
    std::uint32_t free_count = 0;
    bool in_list = false;
    span* previous = nullptr;
    span* next = nullptr;
    char* begin = nullptr;
  };
  struct local {};
  static constexpr const char* name = "a central lock";
  static constexpr bool shares = true;

  std::size_t refill(local&, void** out, std::size_t want) {
    const std::lock_guard guard(lock_);
    std::size_t got = 0;
    while (got < want) {
      span* from = partial_.empty() ? fresh() : partial_.front();
      got += take(*from, out + got, want - got);
      if (from->free_count == 0) partial_.remove(from);
    }
    return got;
  }

  void flush(local&, void** in, std::size_t count) {
    // The misses are taken before the lock, not under it.
    for (std::size_t index = 0; index < count; ++index) __builtin_prefetch(spans_.span_of(in[index]), 1);
    span* empty = nullptr;
    {
      const std::lock_guard guard(lock_);
      for (std::size_t index = 0; index < count; ++index) put(in[index], empty);
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
  span* fresh() {
    span* result = spans_.take();
    result->free_bits.fill(~std::uint64_t{0});
    result->free_count = capacity;
    partial_.push_back(result);
    return result;
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
  void put(void* object, span*& empty) {
    span& to = *spans_.span_of(object);
    const std::size_t index = static_cast<std::size_t>(static_cast<char*>(object) - to.begin) / object_bytes;
    std::uint64_t& word = to.free_bits[index / 64];
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((word & bit) != 0) die("double free");
    word |= bit;
    if (to.free_count++ == 0) partial_.push_back(&to);
    if (to.free_count == capacity) {
      partial_.remove(&to);
      to.next = empty;
      empty = &to;
    }
  }

  short_lock lock_;
  span_list<span> partial_;
  span_heap<span> spans_;
};

}  // namespace experiment
