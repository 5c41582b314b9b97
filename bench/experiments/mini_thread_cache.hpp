// SPDX-License-Identifier: MIT
// mini_thread_cache: the tiers above the spans, the same for every variant: two magazines per thread and a
// depot
//   of a few full magazines that change hands whole.
// Owner: free_state_owner. Thread safety: a cache belongs to one thread, the depot to all.
// Invariant: each object is in the program's hands, in one magazine, or free in its span.
#pragma once

#include "mini_span_heap.hpp"

namespace experiment {

struct magazine {
  std::size_t count = 0;
  void* items[magazine_capacity];
};

class depot {
 public:
  explicit depot(std::size_t limit) : limit_(limit) {}
  ~depot() {
    for (magazine* each : empty_) delete each;
  }
  depot(const depot&) = delete;
  depot& operator=(const depot&) = delete;

  // Takes a full magazine and returns an empty one; nullptr if the depot has no room.
  magazine* exchange_full(magazine* full) {
    const std::lock_guard guard(lock_);
    if (full_.size() >= limit_) return nullptr;
    full_.push_back(full);
    if (empty_.empty()) return new magazine;
    magazine* result = empty_.back();
    empty_.pop_back();
    return result;
  }
  // Takes an empty magazine and returns a full one; nullptr if there is none.
  magazine* exchange_empty(magazine* empty) {
    const std::lock_guard guard(lock_);
    if (full_.empty()) return nullptr;
    magazine* result = full_.back();
    full_.pop_back();
    empty_.push_back(empty);
    return result;
  }

 private:
  std::size_t limit_;
  short_lock lock_;
  std::vector<magazine*> full_;
  std::vector<magazine*> empty_;
};

template <typename tier_type>
struct shared_state {
  explicit shared_state(std::size_t depot_limit) : hand_over(depot_limit) {}
  tier_type tier;
  depot hand_over;
};

template <typename tier_type>
class thread_cache {
 public:
  explicit thread_cache(shared_state<tier_type>& shared)
      : shared_(shared), loaded_(new magazine), spare_(new magazine) {}
  ~thread_cache() {
    flush_all();
    while (magazine* full = shared_.hand_over.exchange_empty(loaded_)) {
      loaded_ = full;
      flush(full);
    }
    shared_.tier.thread_end(local_);
    delete loaded_;
    delete spare_;
  }
  thread_cache(const thread_cache&) = delete;
  thread_cache& operator=(const thread_cache&) = delete;

  void* allocate() {
    magazine& loaded = *loaded_;
    if (loaded.count == 0) [[unlikely]]
      return allocate_slow();
    return loaded.items[--loaded.count];
  }
  void release(void* object) {
    if (shared_.tier.spans().class_of(object) != 1) [[unlikely]]
      die("release of a foreign pointer");
    magazine& loaded = *loaded_;
    if (loaded.count == magazine_capacity) [[unlikely]]
      return release_slow(object);
    loaded.items[loaded.count++] = object;
  }
  // As trim() would: everything in the thread's hands goes back to its span.
  void flush_all() {
    flush(loaded_);
    flush(spare_);
  }

 private:
  [[gnu::noinline]] void* allocate_slow() {
    if (spare_->count != 0) {
      std::swap(loaded_, spare_);
    } else if (magazine* full = shared_.hand_over.exchange_empty(loaded_)) {
      loaded_ = full;
    } else {
      loaded_->count = shared_.tier.refill(local_, loaded_->items, magazine_capacity);
      if (loaded_->count == 0) die("refill brought nothing");
      // The tiers fill in address order and the magazine pops from its end.
      std::reverse(loaded_->items, loaded_->items + loaded_->count);
    }
    return loaded_->items[--loaded_->count];
  }
  [[gnu::noinline]] void release_slow(void* object) {
    std::swap(loaded_, spare_);
    if (loaded_->count != 0) {
      magazine* empty = shared_.hand_over.exchange_full(loaded_);
      if (empty != nullptr) {
        loaded_ = empty;
      } else {
        flush(loaded_);
      }
    }
    loaded_->items[loaded_->count++] = object;
  }
  void flush(magazine* full) {
    if (full->count != 0) shared_.tier.flush(local_, full->items, full->count);
    full->count = 0;
  }

  shared_state<tier_type>& shared_;
  typename tier_type::local local_;
  magazine* loaded_;
  magazine* spare_;
};

// The limit: one thread's unbounded array of pointers; no spans, no sharing, no address order.
template <std::size_t object_bytes>
class bare_array_tier {
 public:
  struct span {
    char* begin;
  };
  struct local {
    std::vector<void*> free;
    local() { free.reserve(arena_bytes / object_bytes); }
  };
  static constexpr const char* name = "bare array";
  static constexpr bool shares = false;

  std::size_t refill(local& mine, void** out, std::size_t want) {
    if (mine.free.empty()) carve(mine);
    const std::size_t count = std::min(want, mine.free.size());
    std::copy_n(mine.free.rbegin(), count, out);
    mine.free.resize(mine.free.size() - count);
    return count;
  }
  void flush(local& mine, void** in, std::size_t count) { mine.free.insert(mine.free.end(), in, in + count); }
  void thread_end(local&) {}
  span_heap<span>& spans() { return spans_; }

 private:
  void carve(local& mine) {
    char* begin = spans_.take()->begin;
    for (std::size_t offset = span_bytes; offset != 0; offset -= object_bytes)
      mine.free.push_back(begin + offset - object_bytes);
  }
  span_heap<span> spans_;
};

}  // namespace experiment
