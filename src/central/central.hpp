// SPDX-License-Identifier: MIT
// central: the tier between thread caches and the page heap. Cuts spans into objects, refills magazines from
// spans in address order, takes objects back into their spans, and hands full magazines from thread to
// thread.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread.
//
// Nobody owns a span's free objects (docs/design/0001). A thread that frees an object stores `object_free` to
// its byte, without a lock and without a read-modify-write. What must never be lost is that somebody lists
// the span:
//   flush:   byte := free;      full fence;  look at state    -> `unlisted`: list it
//   holder:  state := unlisted; full fence;  look at bytes    -> any free: list it
// Of two that run at once at least one sees the other's store (Dekker), and the depot's lock lets one of them
// list it. In the same way, of the threads that free a listed span's last objects at least one sees all of
// them free.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "central/magazine.hpp"
#include "central/object_depot.hpp"
#include "central/objects.hpp"
#include "central/size_class.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"

namespace tarn {

// A span that one thread cache takes objects from, and how far it has come.
struct held_span {
  span* current = nullptr;
  std::size_t cursor = 0;
};

// The arrays of object bytes, a pool per class.
class object_arrays {
 public:
  constexpr object_arrays() : object_arrays(std::make_index_sequence<size_classes::count>()) {}
  metadata_pool& operator[](std::size_t size_class) { return pools_[size_class]; }

 private:
  template <std::size_t... C>
  constexpr explicit object_arrays(std::index_sequence<C...> /*classes*/)
      : pools_{metadata_pool{objects::array_bytes(size_classes::table[C].objects), objects::group}...} {}

  metadata_pool pools_[size_classes::count];
};

class central {
 public:
  constexpr central(metadata_arena& metadata, page_map& map, page_heap& heap)
      : metadata_(metadata), map_(map), heap_(heap) {}

  // Fills the empty magazine `m` with at most `most` free objects, those at the lowest addresses on top.
  // Returns their number, 0 when there is no memory. May call the system.
  std::size_t refill(unsigned size_class, held_span& held, magazine* m, std::size_t most);

  // Puts objects back into their spans. Aborts on one that is free already.
  void flush(unsigned size_class, void* const* objects, std::size_t count);

  // Lets go of a span before it is used up.
  void release(unsigned size_class, held_span& held);

  // A full magazine that some thread has left, or null.
  magazine* take_full(unsigned size_class);
  // Leaves a full magazine for other threads. False when there are enough.
  bool give_full(unsigned size_class, magazine* m);

  // Gives empty spans to the page heap; returns their bytes. `all`: those used lately too.
  std::size_t release_spares(bool all);
  // Puts magazines that nobody has wanted for a period back into spans. `all`: every magazine.
  void flush_idle_magazines(bool all);

  [[nodiscard]] std::size_t spare_bytes() const { return spare_bytes_.load(std::memory_order_relaxed); }
  // Bytes of free objects in full magazines.
  [[nodiscard]] std::size_t handover_bytes();

  object_depot& depot(unsigned size_class) { return depots_[size_class]; }
  magazine_store& magazines() { return magazines_; }
  metadata_arena& metadata() { return metadata_; }
  page_map& map() { return map_; }
  page_heap& heap() { return heap_; }

  template <class Visit>
  void for_each_array_lock(Visit visit) {
    for (unsigned c = 0; c < size_classes::count; ++c) visit(arrays_[c].lock());
  }

  // A span was given back that holds no object any more; or the process is short of memory.
  void set_spare_watcher(void (*watcher)()) { watcher_ = watcher; }

 private:
  span* acquire(unsigned size_class, bool fresh);
  span* make_span(unsigned size_class);
  span* take_pages(std::size_t pages);
  void destroy_span(span* s);
  void exhausted(unsigned size_class, span* s);
  span* take_listed(object_depot& d, span_list& from);
  void list(unsigned size_class, span* s, bool sparse);
  void retire_if_empty(unsigned size_class, span* s);

  void mark(unsigned size_class, const magazine* m, bool away);

  metadata_arena& metadata_;
  page_map& map_;
  page_heap& heap_;
  void (*watcher_)() = nullptr;
  magazine_store magazines_;
  object_arrays arrays_;
  alignas(separation) std::atomic<std::size_t> spare_bytes_{0};
  object_depot depots_[size_classes::count];
};

}  // namespace tarn
