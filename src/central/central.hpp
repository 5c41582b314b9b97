// SPDX-License-Identifier: MIT
// central: the tier between thread caches and the page heap. It cuts spans into objects, refills magazines from spans
// in address order, puts objects back into their spans, and passes full magazines from thread to thread.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread.
//
// No thread owns the free objects of a span (docs/design/0001): their bits are guarded by the lock of their class,
// taken once per magazine. A flush looks up the objects' spans, which is where the cache misses occur, before it takes
// the lock; under the lock it writes mostly to lines that are in the cache already. Invariant whenever the lock is
// free: free_objects == number of bits set; if that equals the capacity, no object of the span is in use.
// While all depots' locks are held, spare_bytes_ == sum of the bytes of their spare spans, and bit c of sparse_ is
// depot c's `sparse` (validate()).
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
  // With at least this much memory in spare spans, decay is woken when another span becomes spare.
  static constexpr std::size_t spare_watch_bytes = 1 * mib;

  constexpr central(metadata_arena& metadata, page_map& map, page_heap& heap)
      : metadata_(metadata), map_(map), heap_(heap) {}

  // Fills the empty magazine `m` with at most `most` free objects, those at the lowest addresses on top. Returns their
  // number; 0: no memory. May make system calls.
  std::size_t refill(unsigned size_class, magazine* m, std::size_t most);

  // One object from a span, for a caller without a magazine; its mark is cleared. Null: no memory.
  void* take_one(unsigned size_class);

  // Puts objects back into their spans. Ends the process if one is free already.
  void flush(unsigned size_class, void** freed, std::size_t count);

  // Called after flushes, without a lock: gives spare spans beyond the few that the class keeps to the page heap, where
  // they coalesce with their neighbours and can serve every class.
  void settle(unsigned size_class) {
    if (TARN_UNLIKELY(depots_[size_class].spare_count.load(std::memory_order_relaxed) >
                      most_spares(size_class))) {
      settle_slow(size_class);
    }
    wake_decay_if_spare();
  }

  // A span from the page heap, for any purpose. Spare spans of all classes go to the page heap before it takes memory
  // that is not `from`, or not warm if `from` is `any`. Parameters and result as for page_heap::allocate().
  span* take_pages(std::size_t pages, std::size_t alignment, span_state state, page_heap::use use,
                   page_heap::source from = page_heap::source::any);

  // True while thread caches should keep almost nothing of the class: see object_depot::draining.
  [[nodiscard]] bool draining(unsigned size_class) const {
    return depots_[size_class].draining.load(std::memory_order_relaxed);
  }

  // Puts at most `most` blocks of the class, made of grains, into `out`. Called before the resident set grows. Returns
  // their number.
  std::size_t take_grains(unsigned size_class, void** out, std::size_t most);
  // The size of the live block that begins at the address; `size_class` is the class of its page.
  std::size_t block_bytes(unsigned size_class, std::uintptr_t address);
  // An object from the class's own spans, never made of grains, so that its alignment is that of its size. Null: no
  // memory.
  void* take_from_own_spans(unsigned size_class);

  // A full magazine that some thread has left in the depot, or null.
  magazine* take_full(unsigned size_class);
  // Leaves a full magazine for other threads. False: the depot has enough.
  bool give_full(unsigned size_class, magazine* m);

  // Gives spare spans to the page heap; returns their bytes. `all`: also those used in the last period.
  std::size_t release_spares(bool all);
  // Flushes full magazines that no thread has taken for a period. `all`: every full magazine.
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

  // Checks the sums over the depots. Takes the locks of all of them at once, in their order, as fork does.
  void validate() TARN_NOT_ANALYZED;

  // Wakes decay, which may have something to purge, so that it is purged even if no thread allocates. Call without a
  // lock: decay may call every cache and depot.
  void wake_decay() { free_memory_gathered(heap_); }

 private:
  static constexpr std::size_t spare_limit = 128 * kib;
  static constexpr std::uint32_t most_spares(unsigned size_class) {
    if (size_classes::is_grain(size_class)) return 0;
    const std::size_t bytes = std::size_t{class_info(size_class).span_pages} << page_shift;
    return static_cast<std::uint32_t>(spare_limit > bytes ? spare_limit / bytes : 1);
  }
  void settle_slow(unsigned size_class);
  // Wakes decay if a span has become spare since the last call and spare spans hold spare_watch_bytes.
  void wake_decay_if_spare() {
    if (TARN_LIKELY(!spare_news_.load(std::memory_order_relaxed))) return;
    spare_news_.store(false, std::memory_order_relaxed);
    wake_decay();
  }
  // can_wait: stop if the background thread must end; the next period goes on.
  std::size_t release_spares_of(unsigned size_class, std::uint32_t keep, bool can_wait);
  void flush_magazines(unsigned size_class, bool all);
  // Whether the bits and ties of a span of this many grains do not fit into span::inline_bits.
  static constexpr bool has_ties_apart(std::size_t grains) {
    return 2 * objects::words(grains) > span::inline_words;
  }
  bool review(object_depot& d, unsigned size_class) TARN_REQUIRES(d.lock);
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
  // Bits of spans that do not fit into span::inline_bits: spans of the smallest class and of the smallest grains.
  metadata_pool bits_{objects::words(class_info(1).objects) * sizeof(std::uint64_t), cache_line};
  alignas(separation) std::atomic<std::size_t> spare_bytes_{0};
  std::atomic<bool> spare_news_{false};
  // sparse_: one bit per class, set while its depot is sparse, written under the depot's lock. has_grains_: a span has
  // been divided at some time. Both are hints, read without a lock.
  std::atomic<std::uint64_t> sparse_[2] = {};
  std::atomic<bool> has_grains_{false};
  object_depot depots_[size_classes::all];
};

inline void central::validate() {
  for (object_depot& d : depots_) d.lock.lock();
  std::size_t spare = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    const object_depot& d = depots_[c];
    d.validate_locked();
    d.for_each_free([&spare](const span& s) { spare += s.list == object_depot::spare_list ? s.bytes() : 0; });
    TARN_INVARIANT("central", this, size_classes::is_grain(c) || is_sparse(c) == d.sparse);
  }
  TARN_INVARIANT("central", this, spare_bytes() == spare);
  for (object_depot& d : depots_) d.lock.unlock();
}

}  // namespace tarn
