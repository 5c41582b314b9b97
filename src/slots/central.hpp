// SPDX-License-Identifier: MIT
// central: the tier between thread caches and the page heap. It cuts spans into objects, refills magazines from spans
// in address order, puts objects back into their spans, and passes full magazines from thread to thread.
//
// Owner: the engine has one. Thread safety: all members may be called by any thread.
//
// No thread owns the free objects of a span (docs/design/0001): their bits are guarded by the lock of their depot,
// taken once per magazine. A class has one depot until threads of several homes take much from it; then each home has
// one (docs/design/0026). A span belongs to one depot, whose number it holds, and its objects go back there, whichever
// thread frees them. A flush looks up the objects' spans, which is where the cache misses occur, before it takes
// the lock; under the lock it writes mostly to lines that are in the cache already. Invariant whenever the lock is
// free: free_objects == number of bits set; if that equals the capacity, no object of the span is in use.
// While all depots' locks are held, spare_bytes_ == sum of the bytes of their spare spans, and bit c of sparse_[h]
// is `sparse` of class c's depot h, each span has the home of its depot and that depot as its owner, a class has
// depot_count() depots, and a span's pages have its class, and its free objects before first_unused their mark, unless
// its free_when_looked is not 0 (validate()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "os/node.hpp"
#include "pages/block_store.hpp"
#include "pages/metadata_pool.hpp"
#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"
#include "slots/magazine.hpp"
#include "slots/objects.hpp"
#include "slots/size_class.hpp"
#include "slots/slot_depot.hpp"

namespace tarn {

class central {
 public:
  // With at least this much memory in spare spans, decay is woken when another span becomes spare.
  static constexpr std::size_t spare_watch_bytes = 1 * mib;

  // A thread has one of this many homes. Most classes have one depot, that of home 0, which serves all homes. A class
  // from which threads of several homes take much has a depot for each of their homes.
  static constexpr unsigned most_homes = 16;
  static constexpr unsigned no_home = most_homes;

  constexpr central(metadata_arena& metadata, block_store& blocks, page_map& map, page_heap& heap)
      : metadata_(metadata), blocks_(blocks), map_(map), heap_(heap) {}

  // Fills the empty magazine `m` with at most `most` free objects, those at the lowest addresses on top. Returns their
  // number; 0: no memory. May make system calls.
  std::size_t refill(unsigned size_class, magazine* m, std::size_t most, unsigned home = 0);

  // One object from a span, for a caller without a magazine; its mark is cleared. Null: no memory.
  void* take_one(unsigned size_class, unsigned home = 0);

  // Puts objects back into their spans. Ends the process if one is free already.
  void flush(unsigned size_class, void** freed, std::size_t count);

  // Called after flushes, without a lock: gives spare spans beyond the few that the class keeps to the page heap, where
  // they coalesce with their neighbours and can serve every class.
  void settle(unsigned size_class) {
    if (TARN_UNLIKELY(has_surplus_[size_class].load(std::memory_order_relaxed))) settle_slow(size_class);
    wake_decay_if_spare();
  }

  // A span from the page heap, for any purpose. Spare spans of all classes, as many as are needed, go to the page heap
  // before it takes memory that is not `from`, or not warm if `from` is `any`. Parameters and result as for page_heap::allocate().
  span* take_pages(std::size_t pages, std::size_t alignment, span_state state, page_heap::use use,
                   page_heap::source from = page_heap::source::any);

  // True while thread caches should keep almost nothing of the class: see slot_depot::draining.
  [[nodiscard]] bool draining(unsigned size_class, unsigned home = 0) const {
    return !size_classes::is_grain(size_class) && depot_for(size_class, home).draining();
  }

  // Puts at most `most` blocks of the class, made of grains, into `out`. Called before the resident set grows. Returns
  // their number.
  std::size_t take_grains(unsigned size_class, void** out, std::size_t most);
  // The size of the live block of grains that begins at the address; `size_class` is the class of its page.
  std::size_t bytes_of_grains(unsigned size_class, std::uintptr_t address);
  // An object from the class's own spans, never made of grains, so that its alignment is that of its size. Null: no
  // memory.
  void* take_from_own_spans(unsigned size_class);

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

  // Gives system pages of free objects between live ones back to the system, in classes that hold much idle memory;
  // returns their bytes (central_idle_pages.cpp). Makes system calls. `all`: in all classes, and also what was used in
  // the last period.
  std::size_t purge_idle_pages(bool all);
  // What is known of a pointer into a page without a class. `size_class` 0: it points into no unlisted span. `fault`: what
  // freeing it shows, as a message, or null. `has_changed`: its page has a class by now, so the caller begins anew.
  struct unlisted {
    unsigned size_class = 0;
    const char* fault = nullptr;
    bool has_changed = false;
  };
  // Takes the lock of a depot.
  unlisted look_up_unlisted(const void* object);

  // How full the span of an object is, and the other spans of its depot (central_occupancy.cpp). Objects in magazines
  // count as taken.
  struct occupancy {
    std::size_t taken;            // of the objects of the span; in a span of grains, of its grains
    std::size_t objects;          // of the span
    std::size_t object_size;      // of the span, or the size of its grains
    std::size_t bytes;            // of the span
    std::size_t partial_spans;    // of the depot, with taken and free objects
    std::size_t partial_taken;    // of their objects
    std::size_t partial_objects;  // of these spans
    bool is_next;                 // the span gives the next object
  };
  // Of the span of an object. False: it is cut into objects no more. Takes the lock of a depot.
  bool occupancy_of(const span& s, const void* object, occupancy& out);
  // Whether a span that is cut into objects of one size (grains are not) has no free one. Takes no lock; the answer is
  // that of some moment.
  [[nodiscard]] static bool is_full(const span& s) {
    return !size_classes::is_grain(TARN_PLAIN_LOAD(s.size_class)) && s.free_objects == 0;
  }
  // The spans of a class in all its depots, without spare ones. Takes their locks, one at a time.
  struct class_figures {
    std::size_t spans;      // of a grain class: not known, 0
    std::size_t with_room;  // of these, with free objects
    std::size_t objects;
    std::size_t taken;
  };
  class_figures figures_of(unsigned size_class);

  [[nodiscard]] std::size_t spare_bytes() const { return spare_bytes_.load(std::memory_order_relaxed); }
  // Bytes of free objects in full magazines.
  [[nodiscard]] std::size_t handover_bytes();

  // The home for another thread, which runs on this memory node: one without threads, or the one with the fewest threads
  // of the node (os::place_cost()). Under the registry's lock, as leave_home().
  std::uint8_t enter_home(unsigned node = os::unknown_node);
  void leave_home(std::uint8_t home) { users_[home].fetch_sub(1, std::memory_order_relaxed); }
  // In a forked child.
  void forget_homes() {
    for (auto& users : users_) users.store(0, std::memory_order_relaxed);
  }

  slot_depot& depot(unsigned size_class, unsigned home = 0) {
    return const_cast<slot_depot&>(std::as_const(*this).depot_for(size_class, home));
  }
  // Calls visit(depot) for all depots of the class.
  template <class Visit>
  void for_each_depot(unsigned size_class, Visit visit) {
    visit(depots_[size_class]);
    if (TARN_LIKELY(depot_count(size_class) == 1)) return;
    for (unsigned home = 1; home < most_homes; ++home) {
      slot_depot& d = depot(size_class, home);
      if (d.home != 0) visit(d);
    }
  }
  void walk_depot_locks(const os::lock_walk& walk);
  magazine_store& magazines() { return magazines_; }
  metadata_arena& metadata() { return metadata_; }
  page_map& map() { return map_; }
  page_heap& heap() { return heap_; }

  // Checks the sums over the depots. Takes the locks of all of them at once, in their order, as fork does.
  void validate() TARN_NOT_ANALYZED;

  // Wakes decay, which may have something to purge, so that it is purged even if no thread allocates. Call without a
  // lock: decay may call every cache and depot.
  void wake_decay() { free_memory_gathered(heap_); }

 private:
  static constexpr std::size_t spare_limit = 128 * kib;
  // Of larger objects fewer are used per second, and what lies free in one home, or in magazines, and is needed
  // elsewhere weighs more: they have one depot, and few magazines wait.
  static constexpr std::size_t largest_shared = 256;
  // Of each depot of the class.
  [[nodiscard]] std::uint32_t most_spares(const slot_depot& d, unsigned size_class) const {
    if (size_classes::is_grain(size_class)) return 0;
    const std::size_t bytes = span_bytes(size_class);
    const std::size_t limit = spare_limit / depot_count(size_class);
    return static_cast<std::uint32_t>(limit > bytes ? limit / bytes : 1) + d.spare_limit.extra();
  }
  [[nodiscard]] unsigned depot_count(unsigned size_class) const {
    return 1U + more_depots_[size_class].load(std::memory_order_relaxed);
  }
  [[nodiscard]] const slot_depot& depot_for(unsigned size_class, unsigned home) const {
    if (home == 0) return depots_[size_class];
    // acquire: partner of the release in open_depot().
    const slot_depot* const own = homes_[home - 1][size_class].load(std::memory_order_acquire);
    return own != nullptr ? *own : depots_[size_class];
  }
  // Whether the home of the depot has threads.
  [[nodiscard]] bool is_used(const slot_depot& d) const {
    return users_[d.home].load(std::memory_order_relaxed) != 0;
  }
  [[nodiscard]] unsigned node_of(unsigned home) const { return nodes_[home].load(std::memory_order_relaxed); }
  slot_depot& depot_to_refill(unsigned size_class, unsigned home) {
    slot_depot& d = depot(size_class, home);
    if (TARN_LIKELY(d.home == home || !is_shared_[size_class].load(std::memory_order_relaxed))) return d;
    return open_depot(size_class, home);
  }
  slot_depot& open_depot(unsigned size_class, unsigned home);
  void note_taker(slot_depot& d, unsigned size_class, unsigned home) TARN_REQUIRES(d.lock);
  [[nodiscard]] bool can_spare(const slot_depot& d, const slot_depot& to, unsigned size_class,
                               bool partial) const;
  bool take_spared(slot_depot& own, unsigned size_class, bool partial);
  bool move_span(slot_depot& from, slot_depot& to, unsigned size_class, bool partial) TARN_NOT_ANALYZED;
  void note_taken(slot_depot& d, unsigned size_class, std::size_t objects) TARN_REQUIRES(d.lock);
  bool flush_extra_magazines(std::size_t bytes);
  unsigned home_of(const void* object) const {
    // relaxed: class_front::elsewhere() looks again, under the lock.
    return map_.span_of(address_of(object))->home.load(std::memory_order_relaxed);
  }
  void settle_slow(unsigned size_class);
  // Wakes decay if a span has become spare since the last call and spare spans hold spare_watch_bytes.
  void wake_decay_if_spare() {
    if (TARN_LIKELY(!spare_news_.load(std::memory_order_relaxed))) return;
    spare_news_.store(false, std::memory_order_relaxed);
    wake_decay();
  }
  // Ends when `keep` spare spans are left, or at least `most` bytes are released. can_wait: also if the background
  // thread must end; the next period goes on.
  std::size_t release_spares_of(slot_depot& d, std::uint32_t keep, bool can_wait,
                                std::size_t most = ~std::size_t{0});
  void flush_magazines(slot_depot& d, unsigned size_class, bool all);
  struct idle_objects;
  // Looks at spans with about `most` bytes of free objects, until the system refuses. can_wait: as for
  // release_spares_of().
  std::size_t purge_idle_pages_of(slot_depot& d, unsigned size_class, std::size_t most, bool can_wait);
  bool take_idle_objects(slot_depot& d, std::size_t size, idle_objects& out);
  bool return_idle_objects(unsigned size_class, const idle_objects& held, bool dropped);
  void list_again(span* s);
  std::uint32_t put_back_magazines(slot_depot& d, unsigned size_class, bool all, bool given_up);
  std::uint32_t put_back_all(unsigned size_class, void** freed, std::size_t count, bool given_up);
  void flush_draining(unsigned size_class, std::uint32_t homes);
  // Of the bits of a span that do not fit into span::inline_bits: the smallest class and the smallest grains have such.
  static constexpr std::size_t bytes_apart = objects::words(class_info(1).objects) * sizeof(std::uint64_t);
  // Whether the bits and ties of a span of this many grains do not fit into span::inline_bits.
  static constexpr bool has_ties_apart(std::size_t grains) {
    return 2 * objects::words(grains) > span::inline_words;
  }
  bool review(slot_depot& d, unsigned size_class) TARN_REQUIRES(d.lock);
  [[nodiscard]] bool is_sparse(unsigned size_class, unsigned home) const {
    return (sparse_[home][size_class / 64].load(std::memory_order_relaxed) >> (size_class % 64) & 1U) != 0;
  }
  std::size_t divide_sparse_spans(unsigned size_class);
  [[nodiscard]] bool may_have_grains() const;
  [[nodiscard]] bool has_more_free(unsigned sixteenths);
  void purge_before_growth(unsigned size_class);
  std::size_t take_runs(unsigned grain, std::size_t bytes, void** out, std::size_t most);
  static void divide(span* s, unsigned grain, std::uint64_t* bits);
  bool divide_span(slot_depot& from, unsigned size_class);
  void flush_misplaced(unsigned size_class, void* freed);
  struct class_front;
  std::size_t put_back(slot_depot& d, unsigned size_class, void** freed, span** owners, std::size_t count,
                       std::uint32_t& draining);
  bool note_spares(slot_depot& d) TARN_REQUIRES(d.lock);
  span* best_span(const slot_depot& d) const TARN_REQUIRES(d.lock);
  std::size_t take_objects(slot_depot& d, unsigned size_class, magazine* m, std::size_t most, unsigned home);
  // `wanted`: how many objects the caller will take.
  bool add_span(slot_depot& d, unsigned size_class, page_heap::source from, std::size_t wanted);
  // Whether all objects that were never used are free, which is not asked while idle pages go back; whether all other
  // free objects have their mark, which is not asked of an unlisted span; and whether its pages have its class. For
  // checks.
  static bool unused_are_free(const span& s);
  static bool objects_are_marked(const span& s);
  static void mark_unused(span* s, std::size_t end);
  [[nodiscard]] bool is_listed(const span& s) const { return map_.class_of(s.start) == s.size_class; }
  void destroy_span(span* s);

  metadata_arena& metadata_;
  block_store& blocks_;
  page_map& map_;
  page_heap& heap_;
  magazine_store magazines_;
  alignas(separation) std::atomic<std::size_t> spare_bytes_{0};
  std::atomic<bool> spare_news_{false};
  // sparse_: one bit per depot, set while it is sparse, written under the depot's lock. has_grains_: a span has been
  // divided at some time. Both are hints, read without a lock.
  std::atomic<std::uint64_t> sparse_[most_homes][2] = {};
  std::atomic<bool> has_grains_{false};
  // Per class: a depot may have more spare spans than it keeps.
  std::atomic<bool> has_surplus_[size_classes::all] = {};
  // A depot keeps more full magazines than the limit of its class.
  std::atomic<bool> has_extra_full_{false};
  // Per class: threads of several homes take much from its only depot.
  std::atomic<bool> is_shared_[size_classes::all] = {};
  // Threads per home.
  std::atomic<std::uint16_t> users_[most_homes] = {};
  // The memory node of its threads. Written under the registry's lock.
  std::atomic<std::uint8_t> nodes_[most_homes] = {};  // meaningless while the home has had no thread
  // Per class: the depots besides that of home 0, null: none; and their number. Written under the lock of home 0's.
  std::atomic<std::uint8_t> more_depots_[size_classes::all] = {};
  std::atomic<slot_depot*> homes_[most_homes - 1][size_classes::all] = {};
  slot_depot depots_[size_classes::all];
};

inline void central::validate() {
  walk_depot_locks({[](os::mutex& m) TARN_NOT_ANALYZED { m.lock(); }});
  std::size_t spare = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    unsigned depots = 0;
    for_each_depot(c, [&](const slot_depot& d) TARN_NOT_ANALYZED {
      ++depots;
      d.validate_locked();
      spare += d.spare_bytes();
      d.spans.for_each([&](const span& s) {
        TARN_INVARIANT("central", this, s.home.load(std::memory_order_relaxed) == d.home);
        TARN_INVARIANT("central", this, s.owner.load(std::memory_order_relaxed) == &d);
        TARN_INVARIANT("central", this, size_classes::is_grain(c) || unused_are_free(s));
        TARN_INVARIANT("central", this, size_classes::is_grain(c) || is_listed(s) == objects_are_marked(s));
      });
      TARN_INVARIANT("central", this, size_classes::is_grain(c) || is_sparse(c, d.home) == d.sparse);
    });
    TARN_INVARIANT("central", this, depots == depot_count(c));
  }
  TARN_INVARIANT("central", this, spare_bytes() == spare);
  walk_depot_locks({[](os::mutex& m) TARN_NOT_ANALYZED { m.unlock(); }, true});
}

}  // namespace tarn
