// SPDX-License-Identifier: MIT
// tier_shared: variants (c) and (d): nobody owns a span's free state. Whoever frees marks the object free in
// the
//   span without a lock; whoever refills holds the span exclusively; the lock serves the list of spans only.
// Owner: free_state_owner. Thread safety: mark_free by anyone, take by the holder, lists under the lock.
// Protocol: a span's tag is generation * 2 + attached. Attached means listed or held by a refiller. The freer
//   marks, fences, and if it finds the tag detached attaches the span and lists it. The refiller that found a
//   span drained detaches it, fences and looks again. One of the two sees the other (Dekker).
//   After its mark the freer has no right to the span any more: the last object's free may have sent it to
//   the page heap. Hence the generation, read before the mark: attaching a span of another life fails.
// Invariant: a detached span with a free object has a freer between its mark and its look at the tag.
#pragma once

#include <array>
#include <bit>

#include "mini_span_heap.hpp"

namespace experiment {

// (c) One bit per object in atomic words.
template <std::size_t object_bytes>
struct word_state {
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  static constexpr const char* name = "c atomic words";
  static constexpr bool mark_is_fence = true;
  std::array<std::atomic<std::uint64_t>, capacity / 64> words{};

  void fill() {
    for (auto& word : words) word.store(~std::uint64_t{0}, std::memory_order_relaxed);
  }
  const void* line_of(std::size_t index) const { return &words[index / 64]; }
  // seq_cst: precedes the look at the tag; release: the program's last accesses precede the next owner's.
  void mark_free(std::size_t index) {
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((words[index / 64].fetch_or(bit, std::memory_order_seq_cst) & bit) != 0) die("double free");
  }
  bool looks_empty(std::size_t index) {
    return words[index / 64].load(std::memory_order_relaxed) == ~std::uint64_t{0} && all_free();
  }
  bool all_free() const {
    for (const auto& word : words)
      if (word.load(std::memory_order_acquire) != ~std::uint64_t{0}) return false;
    return true;
  }
  bool any_free() const {
    for (const auto& word : words)
      if (word.load(std::memory_order_seq_cst) != 0) return true;
    return false;
  }
  std::size_t take(char* begin, void** out, std::size_t want) {
    std::size_t got = 0;
    for (std::size_t word = 0; word < words.size() && got < want; ++word) {
      if (words[word].load(std::memory_order_relaxed) == 0) continue;
      std::uint64_t bits = words[word].exchange(0, std::memory_order_acq_rel);
      for (; bits != 0 && got < want; bits &= bits - 1)
        out[got++] = begin + (word * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * object_bytes;
      if (bits != 0) words[word].fetch_or(bits, std::memory_order_release);
    }
    return got;
  }
};

// (d) One byte per object: 255 is free in the span, 0 is out. A sentinel remembers an object that was out.
template <std::size_t object_bytes>
struct byte_state {
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  static constexpr const char* name = "d bytes";
  static constexpr bool mark_is_fence = false;
  static constexpr std::uint8_t free_mark = 255;
  std::atomic<std::uint16_t> sentinel{0};
  alignas(16) std::array<std::atomic<std::uint8_t>, capacity> bytes{};

  void fill() {
    std::memset(static_cast<void*>(bytes.data()), free_mark, capacity);
    sentinel.store(0, std::memory_order_relaxed);
  }
  const void* line_of(std::size_t index) const { return &bytes[index]; }
  // release: the program's last accesses precede the next owner's; the batch's fence does the rest.
  void mark_free(std::size_t index) {
    if (bytes[index].load(std::memory_order_relaxed) == free_mark) die("double free");
    bytes[index].store(free_mark, std::memory_order_release);
  }
  bool looks_empty(std::size_t) {
    const std::size_t at = sentinel.load(std::memory_order_relaxed);
    return bytes[at].load(std::memory_order_relaxed) == free_mark && move_sentinel(at);
  }
  bool all_free() const {
    for (std::size_t group = 0; group < capacity; group += 16)
      if (free_in(group) != 0xffffU) return false;
    return true;
  }
  bool any_free() const {
    for (std::size_t group = 0; group < capacity; group += 16)
      if (free_in(group) != 0) return true;
    return false;
  }
  std::size_t take(char* begin, void** out, std::size_t want) {
    std::size_t got = 0;
    for (std::size_t group = 0; group < capacity && got < want; group += 16) {
      for (unsigned found = free_in(group); found != 0 && got < want; found &= found - 1) {
        const std::size_t index = group + static_cast<std::size_t>(std::countr_zero(found));
        bytes[index].store(0, std::memory_order_relaxed);
        out[got++] = begin + index * object_bytes;
      }
    }
    return got;
  }

 private:
  // Looks for an object that is out, from the old sentinel on; true if there is none.
  bool move_sentinel(std::size_t from) {
    for (std::size_t step = 0; step <= capacity; step += 16) {
      const std::size_t group = ((from & ~std::size_t{15}) + step) % capacity;
      const unsigned out = ~free_in(group) & 0xffffU;
      if (out == 0) continue;
      const std::size_t index = group + static_cast<std::size_t>(std::countr_zero(out));
      sentinel.store(static_cast<std::uint16_t>(index), std::memory_order_relaxed);
      return false;
    }
    return true;
  }
  // 16 objects at once, one bit each. Acquire: pairs with mark_free.
  unsigned free_in(std::size_t group) const {
#if defined(__SSE2__)
    // Loads of aligned 16 bytes are acquire loads of each byte on x86; the barrier is for the compiler.
    const auto* at = reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(bytes.data()) + group);
    const __m128i equal = _mm_cmpeq_epi8(_mm_load_si128(at), _mm_set1_epi8(-1));
    std::atomic_signal_fence(std::memory_order_acq_rel);
    return static_cast<unsigned>(_mm_movemask_epi8(equal));
#else
    unsigned result = 0;
    for (std::size_t index = 0; index < 16; ++index) {
      const bool is_free = bytes[group + index].load(std::memory_order_acquire) == free_mark;
      result |= static_cast<unsigned>(is_free) << index;
    }
    return result;
#endif
  }
};

template <typename state_type>
class shared_tier {
 public:
  struct alignas(64) span {
    std::atomic<std::uint32_t> tag{0};
    bool in_list = false;
    span* previous = nullptr;
    span* next = nullptr;
    char* begin = nullptr;
    state_type state;
  };
  struct local {};
  static constexpr const char* name = state_type::name;
  static constexpr bool shares = true;
  static constexpr std::size_t object_bytes = span_bytes / state_type::capacity;

  std::size_t refill(local&, void** out, std::size_t want) {
    std::size_t got = 0;
    std::size_t batch = 1;
    while (got < want) {
      span* held[max_batch];
      const std::size_t count = hold(held, batch);
      span* keep[max_batch];
      std::size_t kept = 0;
      for (std::size_t index = 0; index < count; ++index) {
        if (drain(*held[index], out, want, got)) keep[kept++] = held[index];
      }
      if (kept != 0) attach_all(keep, kept, true);
      batch = std::min(batch * 2, max_batch);
    }
    return got;
  }

  void flush(local&, void** in, std::size_t count) {
    span* spans[magazine_capacity];
    std::uint32_t generations[magazine_capacity];
    std::uint16_t slots[magazine_capacity];
    for (std::size_t index = 0; index < count; ++index) {
      spans[index] = spans_.span_of(in[index]);
      const auto offset = static_cast<char*>(in[index]) - spans[index]->begin;
      slots[index] = static_cast<std::uint16_t>(static_cast<std::size_t>(offset) / object_bytes);
      __builtin_prefetch(&spans[index]->tag, 1);
      __builtin_prefetch(spans[index]->state.line_of(slots[index]), 1);
    }
    for (std::size_t index = 0; index < count; ++index) {
      generations[index] = spans[index]->tag.load(std::memory_order_relaxed) >> 1;
      spans[index]->state.mark_free(slots[index]);
    }
    if constexpr (!state_type::mark_is_fence) std::atomic_thread_fence(std::memory_order_seq_cst);
    span* detached[magazine_capacity];
    std::size_t attach_count = 0;
    std::size_t empty_count = 0;
    for (std::size_t index = 0; index < count; ++index) {
      span& each = *spans[index];
      if (attach(each, generations[index])) detached[attach_count++] = &each;
      if (each.state.looks_empty(slots[index])) {
        spans[empty_count] = &each;  // not ahead of the loop: empty_count <= index
        generations[empty_count++] = generations[index];
      }
    }
    if (attach_count != 0) attach_all(detached, attach_count, false);
    if (empty_count != 0) release_empty(spans, generations, empty_count);
  }

  void thread_end(local&) {}
  span_heap<span>& spans() { return spans_; }

 private:
  static constexpr std::size_t max_batch = 16;

  bool attach(span& what, std::uint32_t generation) {
    std::uint32_t expected = generation * 2;
    if (what.tag.load(std::memory_order_relaxed) != expected) return false;
    return what.tag.compare_exchange_strong(expected, generation * 2 + 1, std::memory_order_seq_cst);
  }
  void attach_all(span** which, std::size_t count, bool in_front) {
    const std::lock_guard guard(lock_);
    for (std::size_t index = count; index-- != 0;)
      in_front ? partial_.push_front(which[index]) : partial_.push_back(which[index]);
  }
  std::size_t hold(span** held, std::size_t want) {
    std::size_t count = 0;
    {
      const std::lock_guard guard(lock_);
      while (count < want && !partial_.empty()) held[count++] = partial_.pop_front();
    }
    if (count != 0) return count;
    span* fresh = spans_.take();
    fresh->state.fill();
    const std::uint32_t generation = (fresh->tag.load(std::memory_order_relaxed) >> 1) + 1;
    fresh->tag.store(generation * 2 + 1, std::memory_order_release);
    held[0] = fresh;
    return 1;
  }
  // Takes what it may from a held span. True: still held, objects may be left; false: detached.
  bool drain(span& from, void** out, std::size_t want, std::size_t& got) {
    got += from.state.take(from.begin, out + got, want - got);
    while (got < want) {
      const std::uint32_t attached = from.tag.load(std::memory_order_relaxed);
      from.tag.store(attached - 1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (!from.state.any_free() || !attach(from, attached >> 1)) return false;
      got += from.state.take(from.begin, out + got, want - got);
    }
    return true;
  }
  void release_empty(span** which, const std::uint32_t* generations, std::size_t count) {
    span* empty[magazine_capacity];
    std::size_t found = 0;
    {
      const std::lock_guard guard(lock_);
      for (std::size_t index = 0; index < count; ++index) {
        span* each = which[index];
        const bool same_life = each->tag.load(std::memory_order_relaxed) >> 1 == generations[index];
        if (!same_life || !each->in_list || !each->state.all_free()) continue;
        partial_.remove(each);
        empty[found++] = each;
      }
    }
    for (std::size_t index = 0; index < found; ++index) spans_.give_back(empty[index]);
  }

  short_lock lock_;
  span_list<span> partial_;
  span_heap<span> spans_;
};

template <std::size_t object_bytes>
using words_tier = shared_tier<word_state<object_bytes>>;
template <std::size_t object_bytes>
using bytes_tier = shared_tier<byte_state<object_bytes>>;

}  // namespace experiment
