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

#include "span_states.hpp"

namespace experiment {

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
  static constexpr const char* name = state_type::mark_is_fence ? "c atomic words" : "d bytes";
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
    span* spans[magazine_capacity + 1];
    std::uint32_t generations[magazine_capacity];
    std::uint16_t slots[magazine_capacity];
    for (std::size_t index = 0; index < count; ++index) {
      spans[index] = spans_.span_of(in[index]);
      const auto offset = static_cast<char*>(in[index]) - spans[index]->begin;
      slots[index] = static_cast<std::uint16_t>(static_cast<std::size_t>(offset) / object_bytes);
      __builtin_prefetch(&spans[index]->tag, 1);
      __builtin_prefetch(spans[index]->state.line_of(slots[index]), 1);
    }
    spans[count] = nullptr;
    // Freed in address order, neighbours share their span: only the last of them is looked at again below.
    std::size_t looks = 0;
    for (std::size_t index = 0; index < count; ++index) {
      span* each = spans[index];
      const std::uint32_t generation = each->tag.load(std::memory_order_relaxed) >> 1;
      each->state.mark_free(slots[index]);
      spans[looks] = each;
      generations[looks] = generation;
      slots[looks] = slots[index];
      looks += static_cast<std::size_t>(each != spans[index + 1]);
    }
    if constexpr (!state_type::mark_is_fence) std::atomic_thread_fence(std::memory_order_seq_cst);
    span* detached[magazine_capacity];
    std::size_t attach_count = 0;
    std::size_t empty_count = 0;
    for (std::size_t index = 0; index < looks; ++index) {
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
