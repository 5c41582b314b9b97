// SPDX-License-Identifier: MIT
// page_heap: finds, splits and coalesces spans; takes memory from the system and gives it back (the latter in
// page_heap_purge.cpp).
//
// Owner: the engine has one. Thread safety: all members may be called by any thread. One lock guards the free
// spans; it is never held across a system call: a span that is being purged is in no list of F meanwhile, but in
// purging_, where a forked child finds it.
// Invariants, with F the free spans:
//   free_dirty = sum over F of dirty_pages; in_use + free + purging = reserved (all in pages);
//   no two spans of F are neighbours (they would have been coalesced) but those that may_join() keeps apart;
//   the page map leads from both end pages of every span of F to it;
//   a span in use with dirty_pages = 0 has only pages whose backing is clean, as when they were handed out.
//   validate() checks them.
//
// Decay. A page that is freed is `young`; each period makes young pages old and purges those that were old
// already, so idle memory goes back after one to two periods however often its neighbours come and go.
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

  // Takes a span back. Its class bytes must be clear. `backing`: clean if its memory has been dropped.
  void deallocate(span* s, page_backing backing = page_backing::young);

  // Makes a span longer where it lies. False when what follows is not free.
  bool extend(span* s, std::size_t pages);

  // Cuts a span to its first `pages` pages and takes the rest back. False when there is no metadata for that.
  bool shrink(span* s, std::size_t pages);

  // Cuts a span in use in two: `s` keeps its first `pages` pages, the rest, with the same state and owner, is returned.
  // Null, and nothing has changed, when there is no metadata for that.
  span* split(span* s, std::size_t pages);

  // Takes a span back and gives its memory to the system at once, by slices: other threads wait no longer than for
  // one. Returns the bytes that the system took. Its class bytes must be clear.
  std::size_t give_back(span* s);

  // One period of decay: purges pages that have been free for a whole period. Returns whether free pages with
  // memory behind them are left.
  bool age();

  // Purges free pages until at most `keep` bytes of them are backed. Returns the bytes given back.
  std::size_t trim(std::size_t keep);

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
  bool stock_spans();
  [[nodiscard]] std::uintptr_t place_in(const span* s, std::size_t pages, std::size_t alignment,
                                        use how) const;
  span* take_locked(std::size_t pages, std::size_t alignment, source from, use how);
  enum class head : std::uint8_t { unknown, clean };
  void split_tail_locked(span* s, std::size_t pages, head known = head::unknown);
  void insert_locked(span* s);
  void remove_locked(span* s);
  static bool may_join(const span* a, const span* b);
  void coalesce_locked(span* s);
  void give_back_locked(span* s);
  bool wait_for_purge(int& waited);
  bool grow(std::size_t pages, std::size_t alignment);
  static os::guarded_range reserve(std::size_t bytes, std::size_t alignment, std::uintptr_t newest_end);
  os::guarded_range reserve_step(std::size_t least);
  static bool is_whole(const span* s);
  void mark(span* s, page_backing backing);
  void account_in_use(std::ptrdiff_t pages) {
    in_use_.store(static_cast<std::size_t>(
                      static_cast<std::ptrdiff_t>(in_use_.load(std::memory_order_relaxed)) + pages),
                  std::memory_order_relaxed);
  }

  // Back to the system.
  void begin_purge_locked(span* s);
  span* end_purge_locked(span* s, std::size_t purged);
  std::size_t purge_pages(span* s, bool also_young);
  std::size_t purge_whole(span* s);
  std::size_t purge_until(std::size_t keep);

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
};

}  // namespace tarn
