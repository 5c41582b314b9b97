// SPDX-License-Identifier: MIT
// program_arena: an arena that the program has made ("arenas.create"): its blocks lie in spans of its own, so that all of
// them can be freed at once ("arena.<i>.reset"). Made for few allocations: every call takes the arena's lock, and there
// are no magazines.
//
// Small blocks lie in spans that are cut like those of the size class (objects.hpp), but the page map gives their pages
// class 0, so free() takes its slow path and comes here (malloc/program_arenas.hpp). A larger block is a span.
//
// Owner: the table of arenas. Thread safety: any thread, for blocks that it owns; no other thread may use the arena
// during reset().
// Invariants, under the lock: each span of the arena has owner == the arena and is in exactly one of room_[its class] (if
// it has free objects), full_ (cut, without free objects) and large_; small_bytes_ and large_bytes_ are the bytes of the
// live blocks; span_bytes_ is the sum over the spans.
#pragma once

#include <cstddef>

#include "central/size_class.hpp"
#include "os/mutex.hpp"
#include "pages/span.hpp"

namespace tarn::jemalloc {

struct arena_bytes {
  std::size_t small;
  std::size_t large;
  std::size_t spans;
};

class program_arena {
 public:
  constexpr explicit program_arena(unsigned its_index) : index(its_index) {}

  const unsigned index;

  // Null: no memory. Requires: alignment is a power of two.
  void* allocate(std::size_t size, std::size_t alignment);

  // The arena's span that the pointer leads into, whatever arena; null: there is none.
  static span* span_of(const void* block);
  static program_arena& owner_of(const span* s) {
    return *static_cast<program_arena*>(s->owner.load(std::memory_order_relaxed));
  }

  // Ends the process if the pointer is not a live block. Requires: span_of(block) == s.
  void deallocate(span* s, void* block);
  // 0: the pointer is not a live block. Requires: as above.
  std::size_t usable_size(const span* s, const void* block);

  // Frees all blocks.
  void reset();

  arena_bytes bytes();
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  void validate_locked() const TARN_REQUIRES(lock_);

 private:
  friend class program_arena_test_access;

  void* allocate_large(std::size_t size, std::size_t alignment);
  void* take_locked(unsigned size_class) TARN_REQUIRES(lock_);
  bool add_span(unsigned size_class);
  static void release(span* s);
  static bool is_object(const span* s, const void* block);

  os::mutex lock_{os::lock_rank::pools};
  span_list room_[size_classes::count] TARN_GUARDED_BY(lock_);
  span_list full_ TARN_GUARDED_BY(lock_);
  span_list large_ TARN_GUARDED_BY(lock_);
  std::size_t small_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t large_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t span_bytes_ TARN_GUARDED_BY(lock_) = 0;
};

}  // namespace tarn::jemalloc
