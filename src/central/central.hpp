// SPDX-License-Identifier: MIT
// central: the tier between thread caches and the page heap. Cuts spans into objects, refills magazines from
// spans in address order, takes objects back into their spans, and hands full magazines from thread to
// thread.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread.
//
// Nobody owns a span's free objects (docs/design/0001): their bits are under the lock of their class, taken once
// for a magazine. A flush looks up the objects' spans before it takes the lock, which is where the cache misses
// are, so that little but writing to lines already at hand is left to do under it. So, whenever the lock is free,
//   free_objects = bits set,
// and when that is the capacity, no object of the span is in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "central/magazine.hpp"
#include "central/object_depot.hpp"
#include "central/objects.hpp"
#include "central/size_class.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"

namespace tarn {

class central {
 public:
  static constexpr std::size_t spare_watch_bytes = 1 * mib;

  constexpr central(metadata_arena& metadata, page_map& map, page_heap& heap)
      : metadata_(metadata), map_(map), heap_(heap) {}

  // Fills the empty magazine `m` with at most `most` free objects, those at the lowest addresses on top.
  // Returns their number, 0 when there is no memory. May call the system.
  std::size_t refill(unsigned size_class, magazine* m, std::size_t most);

  // One object from a span, for who has no magazine. Null when there is no memory. Its mark is cleared.
  void* take_one(unsigned size_class);

  // Puts objects back into their spans. Aborts on one that is free already.
  void flush(unsigned size_class, void** freed, std::size_t count);

  // After flushes, by a thread that holds no lock: empty spans beyond the few that a class keeps for itself go back to
  // the page heap, where they become whole with their neighbours and serve every class, from the lowest address on.
  void settle(unsigned size_class) {
    if (TARN_UNLIKELY(depots_[size_class].spare_count.load(std::memory_order_relaxed) >
                      most_spares(size_class))) {
      settle_slow(size_class);
    }
    wake_decay_if_spare();
  }

  // A span from the page heap, for any purpose: warm memory first, empty spans of all classes included, before the
  // resident set grows. Parameters and result as page_heap::allocate().
  span* take_pages(std::size_t pages, std::size_t alignment, span_state state, page_heap::use use,
                   page_heap::source from = page_heap::source::any);

  // True while caches should keep next to nothing of the class: see object_depot.
  [[nodiscard]] bool draining(unsigned size_class) const {
    return depots_[size_class].draining.load(std::memory_order_relaxed);
  }

  // Blocks of a class out of grains, before the resident set grows, into `out`: at most `most`. Returns how many.
  std::size_t take_grains(unsigned size_class, void** out, std::size_t most);
  // The bytes of the live block that begins at the address, whose page has that class.
  std::size_t block_bytes(unsigned size_class, std::uintptr_t address);
  // An object from the class's own spans, whose address is as aligned as its size. Null when there is no memory.
  void* take_from_own_spans(unsigned size_class);

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

  os::mutex& bits_lock() { return bits_.lock(); }

  // There is something that decay might give back, so that it goes back although nobody allocates. To be called without
  // a lock: what follows may come back to every cache and depot.
  void wake_decay() { free_memory_gathered(heap_); }

 private:
  static constexpr std::size_t spare_limit = 128 * kib;
  static constexpr std::uint32_t most_spares(unsigned size_class) {
    if (size_classes::is_grain(size_class)) return 0;
    const std::size_t bytes = std::size_t{class_info(size_class).span_pages} << page_shift;
    return static_cast<std::uint32_t>(spare_limit > bytes ? spare_limit / bytes : 1);
  }
  void settle_slow(unsigned size_class);
  // If spans have run empty since the last time and there are a good deal of them.
  void wake_decay_if_spare() {
    if (TARN_LIKELY(!spare_news_.load(std::memory_order_relaxed))) return;
    spare_news_.store(false, std::memory_order_relaxed);
    wake_decay();
  }
  // can_wait: the next period of decay will do.
  std::size_t release_spares_of(unsigned size_class, std::uint32_t keep, bool can_wait);
  void flush_magazines(unsigned size_class, bool all);
  // In a span of so many grains.
  static constexpr bool has_ties_apart(std::size_t grains) {
    return 2 * objects::words(grains) > span::inline_words;
  }
  bool review(unsigned size_class);
  [[nodiscard]] bool is_sparse(unsigned size_class) const;
  std::size_t divide_sparse_spans(std::size_t bytes);
  void purge_before_growth(unsigned size_class);
  std::size_t take_runs(unsigned grain, std::size_t bytes, void** out, std::size_t most);
  static void divide(span* s, unsigned grain, std::uint64_t* bits);
  bool divide_span(unsigned size_class);
  void flush_misplaced(unsigned size_class, void** freed, span** owners, std::size_t count);
  std::size_t put_back(unsigned size_class, void** freed, span** owners, std::size_t count, bool& drains);
  std::size_t take_objects(unsigned size_class, magazine* m, std::size_t most);
  bool add_span(unsigned size_class, page_heap::source from);
  void destroy_span(span* s);

  metadata_arena& metadata_;
  page_map& map_;
  page_heap& heap_;
  magazine_store magazines_;
  // For spans of more objects than span::inline_bits has bits for: those of the smallest class and of the smallest grains.
  metadata_pool bits_{objects::words(class_info(1).objects) * sizeof(std::uint64_t), cache_line};
  alignas(separation) std::atomic<std::size_t> spare_bytes_{0};
  std::atomic<bool> spare_news_{false};
  // A bit for each class whose depot is sparse, written under the depot's lock; and whether a span was ever divided. Both are
  // hints, read without a lock.
  std::atomic<std::uint64_t> sparse_[2] = {};
  std::atomic<bool> has_grains_{false};
  object_depot depots_[size_classes::all];
};

}  // namespace tarn
