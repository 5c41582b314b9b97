// SPDX-License-Identifier: MIT
// page_heap: finds, splits and coalesces spans, reserves memory and purges it. Other parts of the class:
// page_heap_purge.cpp (purging), page_heap_growth.cpp (new reservations), page_heap_mapping.cpp (large blocks in
// mappings of their own), page_heap_unmapping.cpp (address space that goes back).
//
// Owner: the engine has one. Thread safety: all members may be called by any thread. One lock guards the free spans. It
// is never held across a system call: while a span is being purged or unmapped it is not in F but in transit_.
// Invariants, with F the free spans:
//   - free_dirty = sum over F of dirty_pages; in_use + free + in transit = reserved (all in pages);
//   - free_pages_ is the sum over F;
//   - neighbours in F have been coalesced, except pairs that may_join() refuses;
//   - a span with own_mapping lies in mappings made for large blocks, any other span in a reservation;
//   - the page map has no span for address space that has been unmapped: the system may give it to anybody;
//   - the page map entries of the first and the last page of every span in F lead to the span;
//   - a span in use that is not cut, with dirty_pages == 0, has only clean pages, as when it was handed out.
//   - a guard that span::borders names is inaccessible and belongs to the page heap, and no span lies behind it;
//   - where a span in a reservation has no border, its neighbour is a span, or is being unmapped. Only at a border or
//     beside a span is a part unmapped (hole_beside_neighbours()): a thread that unmaps a part, and makes the guards at
//     its ends without the lock, so never has another one beside it.
// validate_locked() checks all but the third, and what can be seen of the others from free spans.
//
// Decay. A page that is freed becomes `young`. Each period purges the free pages that are `old` and makes the young
// ones old, so idle memory is purged after one to two periods, whatever its neighbours do. Where a system page holds
// several pages, they go together, when all of them are free and none is young. Pages that the system refuses to drop
// become `stuck`: they do not keep decay running, and are retried after a growing number of periods.
//
// Debts. If too much free memory is backed, a thread of the program does not purge it: it adds the bytes to owed_, and the
// background thread purges so many. Until then that memory stays in F: an allocation that takes some of it makes it unnecessary
// to purge that part. A span that is longer than longest_marked does not go to F, but waits in transit_ without an owner, one at
// a time. Where there is no background thread, or a limit is near, the thread of the program purges at once.
//
// Limit. Backed bytes are those in use and the dirty free ones; pages in use count before the program writes to them.
// No span is taken or made longer that would bring them and the metadata above limits().most(): dirty free pages are purged for
// it, and if there are too few, the request fails. Pages that another thread is purging at that moment do not count, nor
// the metadata that the request itself needs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/retry_pause.hpp"
#include "os/guarded_memory.hpp"
#include "os/memory.hpp"
#include "os/mutex.hpp"
#include "pages/backing_limits.hpp"
#include "pages/first_touch.hpp"
#include "pages/first_use.hpp"
#include "pages/free_spans.hpp"
#include "pages/heap_ranges.hpp"
#include "pages/hole.hpp"
#include "pages/page_map.hpp"
#include "pages/shortest_refusal.hpp"
#include "pages/span.hpp"
#include "pages/span_run.hpp"
#include "pages/span_supply.hpp"
#include "pages/spans_in_transit.hpp"

namespace tarn {

struct page_heap_stats {
  std::size_t reserved = 0;  // bytes, as all of these
  std::size_t in_use = 0;
  std::size_t free_dirty = 0;  // including spans that are being purged
  std::size_t free_clean = 0;
  std::size_t returned = 0;
  std::size_t ahead = 0;    // upper bound of the bytes of free_clean that are backed
  std::size_t dropped = 0;  // of in_use: pages of free objects that are not backed

  [[nodiscard]] std::size_t resident_upper() const { return in_use - dropped + free_dirty + ahead; }
};

class page_heap;

// Called without a lock when `heap` has much free memory that could be purged. Declared here and defined by the layer
// that runs decay (background/decay.cpp): the linker binds the call, so no writable memory holds the address of a
// function.
void free_memory_gathered(const page_heap& heap);

// Called without a lock when `heap` has more bytes in use, or free and backed, than its mark; the caller of an allocation
// waits for it. Defined by the layer that knows the process's limits (background/decay.cpp).
void backed_memory_grew(page_heap& heap);

// Called without a lock when free memory of `heap` is to be purged at once, or fresh memory touched ahead: whether another thread
// will call purge_owed() and touch_ahead() in a moment, so that the caller need not wait for the system. Defined by the layer
// that runs decay (background/decay.cpp).
bool is_taken_over(const page_heap& heap);

// Called without a lock, by the hardened build only, when a request finds no memory: gives back one of the spans that
// the layer above keeps from reuse. False: it keeps none. Defined in malloc/hardened_large.cpp.
bool give_back_kept_span();

class page_heap {
 public:
  enum class source : std::uint8_t {
    backed,  // only free pages that are all backed, so that the resident set does not grow
    warm,    // only free pages of which at least half are backed
    roomy,  // the same, in the longest free span, with as many pages at least behind them, which are left to extend()
    any,  // any free span; if none fits, new memory from the system
  };

  // Dense: will be written soon; taken from the low end of fresh memory, where memory is prepared ahead. Sparse: large
  // parts may never be written; taken from the high end, which is not prepared. Filled: written from end to end if
  // the program is like most; taken as dense if the program has filled such spans before, else as sparse.
  enum class use : std::uint8_t { dense, sparse, filled };

  constexpr page_heap(metadata_arena& metadata, page_map& map, first_touch& touch)
      : metadata_(metadata), map_(map), touch_(touch) {}

  // A span of `pages` pages (below 2^32) in state `state`, aligned to `alignment` pages (a power of two). The page map
  // leads from its first and its last page to it; is_first_use tells whether its memory is new to all. Null: no such
  // span (unless source::any), or no memory.
  span* allocate(std::size_t pages, std::size_t alignment, span_state state, source from, use how);

  // Whether the system had room for `bytes` more bytes if it got back all memory of the heap, also what is in use.
  // False: giving memory back for such a request is in vain.
  [[nodiscard]] bool is_satisfiable(std::size_t bytes);

  // A span in a new mapping of its own, zeroed; parameters as above. Null if the system has no memory, if its
  // overcommit policy refuses the size, or if the block is too short to get a mapping (may_map()).
  span* allocate_mapped(std::size_t pages, std::size_t alignment, span_state state, use how);

  // Takes a span back. Requires: the page map has no size class for its pages. `backing`: clean if its memory has been
  // dropped, else young.
  void deallocate(span* s, page_backing backing = page_backing::young);

  // All pages of a span in use count as backed from now on, as the program may have written to them. Requires: only the caller
  // has the span.
  void note_backed(span* s) {
    if (s->dirty_pages != s->pages) set_span_backing(s, page_backing::young);
    s->is_first_use = false;
  }

  // Extends a span in place. False: the pages behind it are not free.
  bool extend(span* s, std::size_t pages);

  // Makes a span in a mapping of its own longer: extends the mapping in place, or moves its page tables to a longer
  // mapping, which changes `s->start`. False: the system cannot; nothing has changed. moves(s) is called, if not null,
  // while `s->start` is still the old place, before anybody else can get that.
  bool grow_mapping(span* s, std::size_t pages, void (*moves)(span*) = nullptr);

  // Cuts a span to its first `pages` pages and frees the rest. False: no memory for metadata.
  bool shrink(span* s, std::size_t pages);

  // Cuts a span in use in two: `s` keeps its first `pages` pages; the returned span has the rest, with the same state
  // and owner. Null: no memory for metadata; nothing has changed.
  span* split(span* s, std::size_t pages);

  // The same without allocating metadata, so that it may be called under a lock: null also if no structure is at hand.
  span* split_prepared(span* s, std::size_t pages);
  // Provides structures for the next calls of split_prepared(). False: no memory. May call the system.
  bool prepare_split() { return ensure_span_structs(); }

  // Makes one span of a run, which is of no use afterwards; null: the run is empty. Calls neither the system nor takes
  // metadata.
  span* join(const span_run& run);

  // Takes a span back and purges it at once, in slices, so that other threads wait for the system no longer than one
  // slice takes. Returns the bytes purged. Requires: the page map has no size class for its pages.
  std::size_t release_to_system(span* s);

  // Drops system pages of `s`, a span in use, which nobody uses. False: the system refuses.
  bool purge_within(span* s, std::uintptr_t start, std::size_t bytes);

  // Whether memory may be backed that was never used: it was prepared, or lies in a huge page.
  [[nodiscard]] bool may_back_unused() const { return touch_.populated() != 0 || touch_.may_have_huge(); }

  // One period of decay: purges pages that have been free for a whole period. Returns whether dirty free pages are left
  // that later periods will purge.
  bool age();

  // Whether there are such pages now (a hint).
  [[nodiscard]] bool has_idle_memory() const { return has_idle_memory_.load(std::memory_order_relaxed); }

  // Purges free pages until at most `keep` bytes of them are backed. Returns the bytes purged.
  std::size_t trim(std::size_t keep);

  // Purges what the callers of deallocate(), allocate() and purge_before_growth() owe the system and have left to this thread
  // (is_taken_over()). `of_thread`: in the background thread; what is left when that must end stays owed. Returns the
  // bytes purged.
  std::size_t purge_owed(bool of_thread);

  // Touches a huge page ahead and measures the time, if first_touch wants to know it.
  void touch_ahead();

  // The resident set is about to grow by `bytes` because the dirty free spans are too short: purges as many bytes of
  // them, but keeps at least `keep` bytes backed.
  void purge_before_growth(std::size_t bytes, std::size_t keep);

  // As allocate() does when there is no address space: unmaps free parts of reservations until `bytes` bytes are
  // unmapped.
  // Returns the bytes unmapped. For tests.
  std::size_t unmap_free(std::size_t bytes) {
    int waited = 0;
    return unmap_free(bytes, waited);
  }

  // In a forked child, which holds the lock for fork: purges and takes back the spans that the parent's other threads
  // were purging, and gives up those that they were unmapping.
  void after_fork_in_child() TARN_NOT_ANALYZED;

  // In a forked child, where the calling thread may have been interrupted while it changed the heap: from here on
  // nobody waits for what the parent's other threads were doing. The memory that they were purging stays lost to this
  // child.
  void forget_other_threads() TARN_NOT_ANALYZED;

  // Growth beyond their mark calls backed_memory_grew(), until the mark is set anew.
  backing_limits& limits() { return limits_; }
  [[nodiscard]] std::size_t backed_bytes() const { return in_use_bytes() + dirty_bytes(); }
  // How often a span has become free.
  [[nodiscard]] std::size_t frees() const { return frees_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::size_t dirty_bytes() const {
    return free_dirty_.load(std::memory_order_relaxed) << page_shift;
  }
  [[nodiscard]] std::size_t in_use_bytes() const {
    return in_use_.load(std::memory_order_relaxed) << page_shift;
  }
  [[nodiscard]] page_heap_stats stats();
  // Where its memory lies: changes with each version.
  [[nodiscard]] std::size_t ranges_version() const { return ranges_.version(); }
  template <class Visit>
  void with_ranges(Visit visit) {
    os::lock_guard guard(lock_);
    visit(std::as_const(ranges_));
  }

  // Checks the invariants above by walking the free spans.
  void validate_locked() const TARN_REQUIRES(lock_);
  void validate() {
    os::lock_guard guard(lock_);
    validate_locked();
  }

  // Whether age() may find structures of spans that nobody needs, now or in the next period.
  [[nodiscard]] bool has_idle_structs();
  // In a forked child: what another thread was giving back is here as it was.
  void forget_struct_holds() { structs_.forget_holds(); }

  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  os::mutex& structs_lock() { return structs_.store_lock(); }

 private:
  friend class page_heap_test_access;

  // Reservations are multiples of this.
  static constexpr std::size_t least_growth = 64 * kib;
  // The pages of a partly dirty free span are examined one by one, under the lock. So spans are joined to a partly dirty
  // one only up to this length: examining that many pages takes about a microsecond.
  static constexpr std::size_t longest_mixed = (64 * mib) >> page_shift;

  bool ensure_span_structs();
  void age_structs();
  [[nodiscard]] std::uintptr_t place_in(const span* s, std::size_t pages, std::size_t alignment,
                                        std::size_t least_dirty, use how) const;
  span* take_locked(std::size_t pages, std::size_t alignment, source from, use how, std::size_t most_looks)
      TARN_REQUIRES(lock_);
  span* take(std::size_t pages, std::size_t alignment, span_state state, source from, use how,
             std::size_t most_looks = free_spans::look_limit);
  void append_locked(span* s, span* after) TARN_REQUIRES(lock_);
  [[nodiscard]] span* span_around(std::uintptr_t address) const;
  void divide_dirty_pages(span* s, span* rest) const;
  span* cut_locked(span* s, std::size_t pages) TARN_REQUIRES(lock_);
  void insert_locked(span* s) TARN_REQUIRES(lock_);
  void remove_locked(span* s) TARN_REQUIRES(lock_);
  static bool may_join(const span* a, const span* b);
  void coalesce_locked(span* s) TARN_REQUIRES(lock_);
  span* allocate_within_limit(std::size_t pages, std::size_t alignment, span_state state, source from,
                              use how);
  static bool wait_a_moment(int& waited);
  void note_refused(std::size_t pages, std::size_t frees);
  bool is_still_refused(std::size_t pages, std::size_t bytes);
  bool wait_for_purge(int& waited);
  bool grow(std::size_t pages, std::size_t alignment);
  // purge_before_growth() with the `keep` that holds for large blocks.
  void purge_before_block(std::size_t bytes);
  bool add_reservation(const os::guarded_range& range);
  void add_reservation_locked(const os::guarded_range& range, bool opted_out) TARN_REQUIRES(lock_);
  void end_unlocked_use();
  os::guarded_range reserve(std::size_t bytes, std::size_t alignment, std::uintptr_t newest_end,
                            std::uintptr_t near) const;
  static bool is_whole(const span* s);
  void validate_neighbour_locked(const span* s, const span* neighbour, std::uint8_t border,
                                 std::uint8_t guard) const TARN_REQUIRES(lock_);
  void validate_free_locked(const span* s) const TARN_REQUIRES(lock_);
  void set_span_backing(span* s, page_backing backing);
  void account_in_use(std::ptrdiff_t pages) {
    in_use_.store(static_cast<std::size_t>(
                      static_cast<std::ptrdiff_t>(in_use_.load(std::memory_order_relaxed)) + pages),
                  std::memory_order_relaxed);
  }

  // The limit.
  [[nodiscard]] bool exceeds_most(std::size_t pages) const;
  bool make_room(std::size_t pages);
  void note_growth() {
    if (TARN_UNLIKELY(limits_.is_beyond_mark(backed_bytes()))) backed_memory_grew(*this);
  }

  // Mappings of large blocks.
  bool may_map(std::size_t pages, std::size_t least_bytes);
  // How far before an aligned address a mapping for a block of this alignment begins.
  [[nodiscard]] std::size_t lead_of(std::size_t alignment) const;
  span* allocate_grown(std::size_t pages, span_state state);
  bool extend_mapping(span* s, std::size_t pages);
  bool move_mapping(span* s, std::size_t pages, void (*moves)(span*));
  std::uintptr_t move_memory(const span* s, std::size_t bytes);
  span* take_span_struct();
  static void set_range(span* s, std::uintptr_t start, std::size_t bytes, bool own_mapping);

  // Unmapping.
  // A span in transit_ that is to be unmapped. Null `s`: nothing is.
  struct departure {
    span* s = nullptr;
    hole range;
    bool is_newest = false;  // the end of the newest reservation
  };
  [[nodiscard]] bool is_at_border(const span* s) const;
  [[nodiscard]] bool is_stuck(const span* s) const;
  departure free_locked(span* s) TARN_REQUIRES(lock_);
  departure begin_unmap_locked(span* s, const hole& range) TARN_REQUIRES(lock_);
  void end_unmap_locked(span* s) TARN_REQUIRES(lock_);
  [[nodiscard]] hole hole_beside_neighbours(const span* s) const;
  void put_border_beside_locked(std::uintptr_t address, std::uint8_t borders) TARN_REQUIRES(lock_);
  void put_back(const departure& leaving);
  bool unmap(const departure& leaving);
  std::size_t unmap_idle();
  template <class Visit>
  void visit_holes_locked(Visit visit) const TARN_REQUIRES(lock_);
  std::size_t most_unmappable(std::size_t enough);
  departure begin_longest_locked(std::size_t most) TARN_REQUIRES(lock_);
  std::size_t unmap_free(std::size_t bytes, int& waited);

  // Purging.
  // Which pages a purge drops.
  enum class due : std::uint8_t { old, old_and_stuck, all };
  struct purge_result {
    std::size_t bytes = 0;
    std::size_t noted = 0;  // what counts as dirty since then (withdraw_huge())
    bool refused = false;   // the system refused some of the pages that were due
    bool aging = false;     // dirty pages are left that a later period will purge
  };
  void begin_purge_locked(span* s) TARN_REQUIRES(lock_);
  span* note_rest_of_huge_locked(span* s, std::uintptr_t first, std::uintptr_t last, std::size_t& noted)
      TARN_REQUIRES(lock_);
  void note_idle_ahead(bool anyway);
  std::size_t withdraw_huge(span* s, std::uintptr_t start, std::size_t bytes);
  span* end_purge(span* s, std::size_t purged);
  static bool is_due(page_backing backing, due which);
  purge_result purge_pages(span* s, due which, std::size_t most);
  void purge_run(span* s, std::uintptr_t first, std::uintptr_t last, due which, purge_result& result);
  [[nodiscard]] os::address_range in_system_pages(const span* s, std::uintptr_t first,
                                                  std::uintptr_t last) const;
  void purge_whole_soon(span* s);
  std::size_t purge_waiting(bool of_thread);
  void purge_owed_soon();
  std::size_t purge_whole(span* s);
  void begin_walk();
  span* begin_purge_of_bin(std::size_t bin, std::size_t& count);
  std::size_t purge_bins(std::size_t most);
  span* cut_end_locked(span* s, std::size_t bytes) TARN_REQUIRES(lock_);
  std::size_t purge_until(std::size_t keep);
  void purge_beyond(std::size_t keep);

  metadata_arena& metadata_;
  page_map& map_;
  first_touch& touch_;
  backing_limits limits_;

  alignas(separation) os::mutex lock_{os::lock_rank::page_heap};
  first_use first_use_ TARN_GUARDED_BY(lock_);
  span_supply structs_;                              // all but its store guarded by lock_
  std::size_t reserved_ TARN_GUARDED_BY(lock_) = 0;  // pages
  // The end of the newest reservation if it can be extended, or 0; and where that one began.
  std::uintptr_t newest_end_ TARN_GUARDED_BY(lock_) = 0;
  std::uintptr_t newest_start_ TARN_GUARDED_BY(lock_) = 0;
  std::atomic<bool> was_refused_{false};  // growth, by the system
  // The bytes of metadata that the last growth in vain needed beside its reservation.
  std::atomic<std::size_t> lacked_{0};
  // Threads that, without the lock, extend the newest reservation or prepare fresh memory. Meanwhile
  // no part of a reservation is unmapped: its addresses could then belong to another mapping.
  std::size_t unlocked_users_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t free_pages_ TARN_GUARDED_BY(lock_) = 0;
  std::atomic<std::size_t> frees_{0};  // how often a span has become free; written under lock_
  shortest_refusal refused_;           // written under lock_
  spans_in_transit transit_ TARN_GUARDED_BY(lock_);
  std::uint8_t walk_ TARN_GUARDED_BY(lock_) = 0;  // the number of walks over F, modulo 256
  std::size_t returned_ TARN_GUARDED_BY(lock_) = 0;
  std::atomic<std::size_t> in_use_{0};      // written under lock_
  std::atomic<std::size_t> free_dirty_{0};  // written under lock_; pages
  std::atomic<bool> has_idle_memory_{false};
  std::atomic<std::size_t> owed_{0};           // bytes of F that are to be purged
  std::atomic<bool> has_waiting_span_{false};  // in transit_, without an owner; written under lock_
  // Parts of reservations were unmapped, and nothing could be mapped after that.
  std::atomic<bool> unmapping_is_vain_{false};
  retry_pause stuck_pages_;  // used by the thread that runs a period
  // Number of calls of trim(0). A period that sees it change purges the spans that it holds completely: trim() cannot
  // see them.
  std::atomic<std::uint32_t> trims_{0};
  free_spans free_ TARN_GUARDED_BY(lock_);  // long, and little of it is used at first
  // Long, and little of it is used at first. lock_ guards all of it except its version, which is read without the lock.
  heap_ranges ranges_;
};

}  // namespace tarn
