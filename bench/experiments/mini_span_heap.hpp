// SPDX-License-Identifier: MIT
// mini_span_heap: the parts of the mini-allocator that do not depend on who owns the free state: the memory,
// a
//   page heap that hands out spans, a map from address to span, a lock, an intrusive list of spans.
// Owner: free_state_owner. Thread safety: take, give_back and span_of by any thread.
// Invariant: a span's header is never unmapped, so that a late reader finds a header, if perhaps not its own.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "support.hpp"

namespace experiment {

inline constexpr std::size_t span_shift = 14;
inline constexpr std::size_t span_bytes = std::size_t{1} << span_shift;
inline constexpr std::size_t arena_bytes = std::size_t{256} << 20;
inline constexpr std::size_t arena_spans = arena_bytes / span_bytes;
inline constexpr std::size_t magazine_capacity = 254;

// Spins shortly, then sleeps: with more threads than processors the holder may be asleep itself.
class short_lock {
 public:
  void lock() {
    for (int attempt = 0; attempt < 64; ++attempt) {
      if (mutex_.try_lock()) return;
      cpu_pause();
    }
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// The memory all variants share, touched once, so that no run pays for page faults.
class arena_memory {
 public:
  static char* base() {
    static arena_memory memory;
    return memory.base_;
  }

 private:
  arena_memory() {
    void* raw =
        mmap(nullptr, arena_bytes + span_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) die("cannot map 256 MiB; raise ulimit -v or free memory");
    const auto address = reinterpret_cast<std::uintptr_t>(raw);
    base_ = static_cast<char*>(raw) + ((span_bytes - address % span_bytes) % span_bytes);
    std::memset(base_, 1, arena_bytes);
  }
  char* base_;
};

// Doubly linked through span_type::previous and ::next. The caller serialises.
template <typename span_type>
class span_list {
 public:
  bool empty() const { return first_ == nullptr; }
  span_type* front() const { return first_; }
  void push_back(span_type* span) { insert(span, last_, nullptr); }
  void push_front(span_type* span) { insert(span, nullptr, first_); }
  void remove(span_type* span) {
    (span->previous != nullptr ? span->previous->next : first_) = span->next;
    (span->next != nullptr ? span->next->previous : last_) = span->previous;
    span->in_list = false;
  }
  span_type* pop_front() {
    span_type* span = first_;
    if (span != nullptr) remove(span);
    return span;
  }

 private:
  void insert(span_type* span, span_type* before, span_type* after) {
    span->previous = before;
    span->next = after;
    (before != nullptr ? before->next : first_) = span;
    (after != nullptr ? after->previous : last_) = span;
    span->in_list = true;
  }
  span_type* first_ = nullptr;
  span_type* last_ = nullptr;
};

template <typename span_type>
class span_heap {
 public:
  span_heap() : base_(arena_memory::base()), spans_(new span_type[arena_spans]()) {
    map_.resize(arena_spans);
    class_bytes_.assign(arena_spans, 0);
    free_.reserve(arena_spans);
    for (std::size_t index = 0; index < arena_spans; ++index) {
      spans_[index].begin = base_ + index * span_bytes;
      map_[index] = &spans_[index];
      free_.push_back(&spans_[arena_spans - 1 - index]);
    }
  }
  span_type* take() {
    const std::lock_guard guard(lock_);
    if (free_.empty()) die("the experiment's 256 MiB are used up");
    span_type* span = free_.back();
    free_.pop_back();
    class_bytes_[index_of(span->begin)] = 1;
    const std::size_t used = arena_spans - free_.size();
    if (used > peak_) peak_ = used;
    return span;
  }
  void give_back(span_type* span) {
    const std::lock_guard guard(lock_);
    class_bytes_[index_of(span->begin)] = 0;
    free_.push_back(span);
  }
  span_type* span_of(const void* object) const { return map_[index_of(object)]; }
  // What free() reads of the page map on every call.
  unsigned class_of(const void* object) const { return class_bytes_[index_of(object)]; }
  std::size_t used() {
    const std::lock_guard guard(lock_);
    return arena_spans - free_.size();
  }
  std::size_t peak() const { return peak_; }
  void restart_peak() { peak_ = used(); }

 private:
  std::size_t index_of(const void* object) const {
    return static_cast<std::size_t>(static_cast<const char*>(object) - base_) >> span_shift;
  }

  char* base_;
  std::unique_ptr<span_type[]> spans_;
  std::vector<span_type*> map_;
  std::vector<std::uint8_t> class_bytes_;
  short_lock lock_;
  std::vector<span_type*> free_;
  std::size_t peak_ = 0;
};

}  // namespace experiment
