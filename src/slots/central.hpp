// SPDX-License-Identifier: MIT
// central: the tier between thread caches and the page heap. It cuts spans into objects, refills magazines from spans
// in address order, puts objects back into their spans, and passes full magazines from thread to thread. Its parts:
//
//   class_depots   the depots: spans by how full they are, and magazines that wait
//   grains         blocks made of what lies free in sparse spans
//   idle_pages     pages of free objects that go back to the system
//
// Owner: the engine has one. Thread safety: all members may be called by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pages/block_store.hpp"
#include "pages/page_heap.hpp"
#include "slots/class_depots.hpp"
#include "slots/grains.hpp"
#include "slots/idle_pages.hpp"
#include "slots/magazine.hpp"

namespace tarn {

// Called without a lock before the resident set grows: the large blocks that wait for requests of their own length go to the
// page heap. False: none waited. Defined in background/warm_blocks.cpp.
bool give_back_warm_blocks();

class central {
 public:
  constexpr central(metadata_arena& metadata, block_store& blocks, page_map& map, page_heap& heap)
      : metadata_(metadata), blocks_(blocks), map_(map), heap_(heap) {}

  // Fills the empty magazine `m` with at most `most` free objects, those at the lowest addresses on top. Returns their
  // number; 0: no memory. May make system calls.
  std::size_t refill(unsigned size_class, magazine* m, std::size_t most, unsigned home = 0);
  // One object, for a caller without a magazine; its mark is cleared. Null: no memory. `from_own_spans`: it is not made of
  // grains, so that its alignment is that of its size.
  void* take_one(unsigned size_class, unsigned home = 0, bool from_own_spans = false);

  // Puts objects back into their spans. Ends the process if one is free already.
  void flush(unsigned size_class, void** freed, std::size_t count);
  // Called after flushes, without a lock: gives spare spans beyond the few that the class keeps to the page heap, where
  // they coalesce with their neighbours and can serve every class.
  void release_surplus(unsigned size_class) {
    if (TARN_UNLIKELY(depots_.take_surplus_news(size_class))) release_surplus_of(size_class);
    wake_decay_if_spare();
  }

  // A span from the page heap, for any purpose. Spare spans of all classes, as many as are needed, go to the page heap
  // before it takes memory that is not `from`, or not warm if `from` is `any`. Parameters and result as for page_heap::allocate().
  span* take_pages(std::size_t pages, std::size_t alignment, span_state state, page_heap::use use,
                   page_heap::source from = page_heap::source::any);

  // True while thread caches should keep almost nothing of the class: see slot_depot::draining.
  [[nodiscard]] bool draining(unsigned size_class, unsigned home = 0) const {
    return !size_classes::is_grain(size_class) && depots_.at(size_class, home).draining();
  }

  // A full magazine that some thread has left in the depot, or null.
  magazine* take_full(unsigned size_class, unsigned home = 0);
  // Leaves a full magazine for other threads: in the depot that its objects belong to, or, if they are of several, in
  // that of `home`. Stores an empty one in *empty if the depot has one. False: the depot has enough.
  bool give_full(unsigned size_class, magazine* m, unsigned home = 0, magazine** empty = nullptr);
  // Leaves an empty magazine for those who will leave full ones. False: the depot has enough.
  bool leave_empty(unsigned size_class, magazine* m, unsigned home = 0);

  // Gives spare spans to the page heap, class by class until they are at least `most` bytes; returns their bytes.
  // `all`: also those used in the last period.
  std::size_t release_spares(bool all, std::size_t most = ~std::size_t{0});
  // Flushes full magazines that no thread has taken for a period. `all`: every full magazine.
  void flush_idle_magazines(bool all);
  // As idle_pages::purge().
  std::size_t purge_idle_pages(bool all);
  // Wakes decay, which may have something to purge, so that it is purged even if no thread allocates. Call without a
  // lock: decay may call every cache and depot.
  void wake_decay() { free_memory_gathered(heap_); }
  // Bytes of free objects in full magazines.
  [[nodiscard]] std::size_t handover_bytes();

  class_depots& depots() { return depots_; }
  home_counts& homes() { return depots_.homes(); }
  tarn::grains& grains() { return grains_; }
  tarn::idle_pages& idle_pages() { return idle_pages_; }
  magazine_store& magazines() { return magazines_; }
  metadata_arena& metadata() { return metadata_; }
  page_map& map() { return map_; }
  page_heap& heap() { return heap_; }

 private:
  bool add_span(slot_depot& d, unsigned size_class, page_heap::source from, std::size_t wanted);
  void destroy_span(span* s);
  void note_taken(slot_depot& d, unsigned size_class, std::size_t objects);
  void release_surplus_of(unsigned size_class);
  void wake_decay_if_spare() {
    if (TARN_UNLIKELY(depots_.take_spare_news())) wake_decay();
  }
  std::size_t release_spares_of(slot_depot& d, std::uint32_t keep, bool can_wait,
                                std::size_t most = ~std::size_t{0});
  std::uint32_t put_back_magazines(slot_depot& d, unsigned size_class, bool all, bool given_up);
  void flush_magazines(slot_depot& d, unsigned size_class, bool all);
  void flush_draining(unsigned size_class, std::uint32_t homes);
  bool flush_extra_magazines(std::size_t bytes);

  metadata_arena& metadata_;
  block_store& blocks_;
  page_map& map_;
  page_heap& heap_;
  magazine_store magazines_;
  // A depot keeps more full magazines than the limit of its class.
  std::atomic<bool> has_extra_full_{false};
  class_depots depots_{metadata_, map_};
  tarn::grains grains_{depots_, blocks_, map_};
  tarn::idle_pages idle_pages_{depots_, map_, heap_};
};

}  // namespace tarn
