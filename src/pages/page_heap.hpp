// SPDX-License-Identifier: MIT
// page_heap: finds, splits and coalesces spans; takes memory from the system and gives it back (the latter in
// page_heap_purge.cpp; how the heap grows in page_heap_growth.cpp; large blocks in mappings of their own in
// page_heap_mapping.cpp).
//
// Owner: the engine has one. Thread safety: all members may be called by any thread. One lock guards the free
// spans; it is never held across a system call: a span that is being purged is in no list of F meanwhile, but in
// purging_, where a forked child finds it.
// Invariants, with F the free spans:
//   free_dirty = sum over F of dirty_pages; in_use + free + purging = reserved (all in pages);
//   no two spans of F are neighbours (they would have been coalesced) but those that may_join() keeps apart;
//   a span with own_mapping lies in mappings that were made for large blocks, any other one in a reservation;
//   the page map has no span for address space that has been unmapped, which the system may give to anybody;
//   the page map leads from both end pages of every span of F to it;
//   a span in use with dirty_pages = 0 has only pages whose backing is clean, as when they were handed out.
//   validate() checks them.
//
// Decay. A page that is freed is `young`; each period makes young pages old and purges those that were old
// already, so idle memory goes back after one to two periods however often its neighbours come and go. Pages that the
// system refuses to take are `stuck`: they are no work left, and are tried again after a growing number of periods.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/guarded_memory.hpp"
#include "os/mutex.hpp"
#include "pages/first_touch.hpp"
#include "pages/free_spans.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/page_map.hpp"
#include "pages/span.hpp"

namespace tarn {

struct page_heap_stats {
  std::size_t reserved = 0;  // bytes, as all of these
  std::size_t in_use = 0;
  std::size_t free_dirty = 0;  // being purged included
  std::size_t free_clean = 0;
  std::size_t returned = 0;
  std::size_t ahead = 0;  // of free_clean, at most this is backed
};

class page_heap;

// Free memory of `heap` has gathered that might go back to the system. Called without a lock. Declared here and defined
// by the layer that gives memory back (runtime/decay.cpp): the linker binds the call, so that no writable memory holds
// the address of a function.
void free_memory_gathered(const page_heap& heap);

class page_heap {
 public:
  enum class source : std::uint8_t {
    warm,  // only pages half of which at least have memory behind them
    any,   // any free span, else new memory from the system
  };

  // Dense spans come from the low end of fresh memory, which is backed ahead; sparse ones, of which large
  // parts may never be written, from its high end, which is not. Filled: a large block, from the high end too,
  // that will be written from end to end.
  enum class use : std::uint8_t { dense, sparse, filled };

  constexpr page_heap(metadata_arena& metadata, page_map& map, first_touch& touch)
      : metadata_(metadata), map_(map), touch_(touch) {}

  // A span of `pages` pages, its start aligned to `alignment` pages (a power of two), in state `state`; both
  // end pages map to it. Null when there is none (source::warm), or no memory. pages < 2^32.

  span* allocate(std::size_t pages, std::size_t alignment, span_state state, source from, use how);

  // A span in a new mapping of its own, zeroed; parameters as above. Null where the system has none, where its
  // overcommit policy refuses so much, or where the heap would come to lie in too many mappings.
  span* allocate_mapped(std::size_t pages, std::size_t alignment, span_state state, use how);

  // Takes a span back. Its class bytes must be clear. `backing`: clean if its memory has been dropped.
  void deallocate(span* s, page_backing backing = page_backing::young);

  // Makes a span longer where it lies. False when what follows is not free.
  bool extend(span* s, std::size_t pages);

  // Makes a span in a mapping of its own longer, by growing the mapping, or by moving its page tables to a longer one,
  // which changes `s->start`. False: the system cannot, and nothing has changed.
  bool grow_mapping(span* s, std::size_t pages);

  // Cuts a span to its first `pages` pages and takes the rest back. False when there is no metadata for that.
  bool shrink(span* s, std::size_t pages);

  // Cuts a span in use in two: `s` keeps its first `pages` pages, the rest, with the same state and owner, is returned.
  // Null, and nothing has changed, when there is no metadata for that.
  span* split(span* s, std::size_t pages);

  // Takes a span back and gives its memory to the system at once, by slices: other threads wait no longer than for
  // one. Returns the bytes that the system took. Its class bytes must be clear.
  std::size_t release_to_system(span* s);

  // One period of decay: purges pages that have been free for a whole period. Returns whether there are free pages with
  // memory behind them that later periods will purge.
  bool age();

  // Whether there are such pages now.
  [[nodiscard]] bool has_idle_memory() const { return has_idle_memory_.load(std::memory_order_relaxed); }

  // Purges free pages until at most `keep` bytes of them are backed. Returns the bytes given back.
  std::size_t trim(std::size_t keep);

  // The resident set is about to grow by `bytes`, although there is free memory that is backed and too short: as much of
  // that goes back to the system, down to `keep` bytes.
  void purge_before_growth(std::size_t bytes, std::size_t keep);

  // In a forked child, with the lock free: purges and takes back the spans that other threads were purging.
  void after_fork_in_child();

  // The most that free pages may keep backed between two periods.
  void set_dirty_limit(std::size_t bytes) { dirty_limit_.store(bytes, std::memory_order_relaxed); }

  [[nodiscard]] std::size_t dirty_bytes() const {
    return free_dirty_.load(std::memory_order_relaxed) << page_shift;
  }
  [[nodiscard]] std::size_t in_use_bytes() const {
    return in_use_.load(std::memory_order_relaxed) << page_shift;
  }
  [[nodiscard]] page_heap_stats stats();

  // Walks all free spans and traps if an invariant does not hold. For tests and the checked build.
  void validate();

  os::mutex& lock() { return lock_; }

 private:
  span* new_span_locked();
  bool ensure_span_structs();
  [[nodiscard]] std::uintptr_t place_in(const span* s, std::size_t pages, std::size_t alignment,
                                        use how) const;
  span* take_locked(std::size_t pages, std::size_t alignment, source from, use how, std::size_t most_looks);
  span* take(std::size_t pages, std::size_t alignment, span_state state, source from, use how,
             std::size_t most_looks = free_spans::look_limit);
  span* cut_locked(span* s, std::size_t pages);
  void insert_locked(span* s);
  void remove_locked(span* s);
  static bool may_join(const span* a, const span* b);
  void coalesce_locked(span* s);
  void recycle_struct_locked(span* s);
  bool wait_for_purge(int& waited);
  bool grow(std::size_t pages, std::size_t alignment);
  // purge_before_growth() by a large block.
  void purge_before_block(std::size_t bytes);
  static os::guarded_range reserve(std::size_t bytes, std::size_t alignment, std::uintptr_t newest_end);
  os::guarded_range reserve_step(std::size_t least);
  static bool is_whole(const span* s);
  void set_span_backing(span* s, page_backing backing);
  void account_in_use(std::ptrdiff_t pages) {
    in_use_.store(static_cast<std::size_t>(
                      static_cast<std::ptrdiff_t>(in_use_.load(std::memory_order_relaxed)) + pages),
                  std::memory_order_relaxed);
  }

  // Mappings of large blocks.
  bool may_map(std::size_t pages, std::size_t least_bytes);
  // How far before an aligned address a mapping for a block of this alignment begins.
  [[nodiscard]] std::size_t lead_of(std::size_t alignment) const;
  bool add_free(std::uintptr_t start, std::size_t bytes, bool own_mapping);
  bool extend_mapping(span* s, std::size_t pages);
  bool move_mapping(span* s, std::size_t pages);
  struct unmapping {
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] bool is_at_border(const span* s) const;
  static void set_range(span* s, std::uintptr_t start, std::size_t bytes, bool own_mapping);
  void forget_range_locked(std::uintptr_t start, std::size_t bytes);
  unmapping settle_locked(span* s);
  unmapping detach_locked(span* s);
  bool unmap(const unmapping& idle);
  std::size_t unmap_idle();

  // Back to the system.
  enum class due : std::uint8_t { old, old_and_stuck, all };
  struct purge_result {
    std::size_t bytes = 0;
    bool refused = false;  // some of what was due
    bool aging = false;    // pages that are not due yet are left
  };
  void begin_purge_locked(span* s);
  span* end_purge(span* s, std::size_t purged);
  static bool is_due(page_backing backing, due which);
  purge_result purge_pages(span* s, due which);
  void purge_run(const span* s, std::uintptr_t first, std::uintptr_t last, due which, purge_result& result);
  void plan_next_try(bool tried, bool refused);
  std::size_t purge_whole(span* s);
  std::size_t purge_until(std::size_t keep);
  void purge_beyond(std::size_t keep);

  metadata_arena& metadata_;
  page_map& map_;
  first_touch& touch_;
  std::atomic<std::size_t> dirty_limit_{256 * mib};

  alignas(separation) os::mutex lock_{os::lock_rank::page_heap};
  free_spans free_;                // guarded by lock_
  span* spare_structs_ = nullptr;  // guarded by lock_: unused span structures, linked by next
  std::size_t spare_count_ = 0;    // guarded by lock_
  std::size_t reserved_ = 0;       // guarded by lock_; pages
  std::uintptr_t newest_end_ = 0;  // guarded by lock_; where the newest reservation may become longer, or 0
  std::size_t free_pages_ = 0;     // guarded by lock_
  span_list purging_;              // guarded by lock_
  std::size_t purging_pages_ = 0;  // guarded by lock_; of the spans in purging_
  std::size_t returned_ = 0;       // guarded by lock_
  std::atomic<std::size_t> in_use_{0};      // written under lock_
  std::atomic<std::size_t> free_dirty_{0};  // written under lock_; pages
  std::atomic<bool> has_idle_memory_{false};
  std::atomic<std::size_t> refused_at_{0};  // bytes free and dirty when the system refused to take any; or 0
  // Of whoever runs a period: periods until stuck pages are tried again, and how many that was the last time.
  std::atomic<std::uint32_t> stuck_wait_{0};
  std::atomic<std::uint32_t> stuck_pause_{0};
  // Calls of trim() that keep nothing. A period that is looking at a span meanwhile purges all of it: nobody else sees it.
  std::atomic<std::uint32_t> trims_{0};
};

}  // namespace tarn
