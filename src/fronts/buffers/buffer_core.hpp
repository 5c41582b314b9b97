// SPDX-License-Identifier: MIT
// buffer_core: one buffer pool, untyped.
//
//     page heap --take_fresh()--> live --take_back()--> kept_ --over the budget--> leaving_
//                                   ^------- get() -------+--------- get() ----------+
//     kept_    --> page heap: make_room(), give_to_heap()     --> system: age(), idle too long
//     leaving_ --> page heap: give_to_heap()                  --> system: run_errands(), age(), discard_surplus()
//
// A buffer is one span in state `buffer`, whose owner is this pool. Given back, the span is kept, whole and backed.
// Spans beyond the budget are leaving: the background thread gives them to the system, and until then get() may still
// take them. A request is served by the shortest kept span that fits (kept_spans::fits), else by a part of a longer
// one. If no kept span is long enough, but all together would be, the oldest go to the page heap first: so the kept
// spans follow the sizes in use, and adjacent spans merge. Then the page heap is asked, whose free memory may be
// backed, too.
//
// Structures of pools are never given back to the system, so that a stale pointer still leads to such a structure.
// Thread safety: any thread. The lock guards the members marked so, and is never held across a system call.
// Invariants: counted_.live_bytes = sum over spans in state `buffer` that this pool owns; counted_.live = their number;
//   leaving_bytes_ = sum over leaving_; counted_.hits <= counted_.gets;
//   kept_.pages() <= the budget whenever the lock is free (the group's part of the budget may shrink meanwhile);
//   used_, unless the pool has ended and counted_.live = 0, pins_ = 0 and leaving_ is empty.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fronts/buffers/buffer_budget.hpp"
#include "fronts/buffers/buffer_memory.hpp"
#include "os/mutex.hpp"
#include "pages/kept_spans.hpp"
#include "tarn/pool.h"

namespace tarn {

class buffer_core;

// buffer_group: what the buffer pools of a process share: their budget, and the list in which they find each other.
//
//   newest ──> buffer_core ──next──> buffer_core ──next──> ... the oldest
//
// Thread safety: any thread. A pool's structure stays in the list for ever; that of an ended pool is reused for the
// next one. So walks take no lock; the lock guards only the growth of the list.
// Invariants: pools = length of the list; each pool in it is one of this group.
struct buffer_group {
  // Adds a pool of this group, which is complete, to the list.
  void add(buffer_core& pool);
  void validate_locked() const TARN_REQUIRES(lock);

  buffer_budget budget;
  os::mutex lock{os::lock_rank::pools};
  std::atomic<buffer_core*> newest{nullptr};  // written under the lock
  std::size_t pools TARN_GUARDED_BY(lock) = 0;
};

enum class buffer_failure : std::uint8_t { none, no_memory, not_lockable, over_budget };

class buffer_core {
 public:
  static constexpr std::size_t smallest = 64 * kib;
  // Page tables reach no further; also keeps page counts within 32 bits.
  static constexpr std::size_t largest = std::size_t{1} << 44;
  static constexpr std::size_t largest_alignment = 1 * gib;
  static constexpr std::size_t longest_name = 127;
  // Guard at the end of each buffer's span in a checked pool: filled when the buffer is handed out, checked when it
  // comes back.
  static constexpr std::size_t guard_bytes = 4 * kib;
  // The most bytes that may be leaving; a thread that gives back more gives the excess to the system itself.
  static constexpr std::size_t most_leaving = 64 * mib;

  // A pool of `group`, whose owner adds it to the list.
  explicit buffer_core(buffer_group& group) : group_(group) {}
  buffer_core(const buffer_core&) = delete;
  buffer_core& operator=(const buffer_core&) = delete;

  static bool is_valid(const tarn_buffer_options& request);

  // Makes this structure the requested pool. False if it is in use as a pool.
  bool claim(const tarn_buffer_options& request);
  // Ends the pool; the structure is free for the next claim() once no buffer is live. Requires: no thread gets from it
  // any more.
  void end();

  // A buffer's span; sets *capacity to the bytes that may be used. Null, with `failure` set, if there is none.
  span* get(std::size_t bytes, std::size_t* capacity, buffer_failure& failure);
  // Takes a buffer back. Requires: the caller has changed the state of `s`, a buffer of this pool, from `buffer` to
  // `kept`.
  void take_back(span* s);

  // Of a live buffer of this pool.
  [[nodiscard]] std::size_t usable_bytes(const span* s) const;

  // As tarn_buffer_reserve.
  buffer_failure reserve(std::size_t bytes, std::size_t count);
  // Gives all kept and leaving spans to the system; returns the bytes.
  std::size_t trim();
  // Gives all kept and leaving spans to the page heap, for any request; with `only_if_locked` only those of a locked
  // pool.
  void give_to_heap(bool only_if_locked);

  // One period of decay: gives leaving spans, and those idle too long, to the system.
  void age(std::int64_t now_ms);
  // Whether age() or run_errands() may find something to do.
  [[nodiscard]] bool has_work();
  // Work that the background thread does at once: gives leaving spans to the system, gets buffers ready.
  void run_errands();

  // Fills `out`, and `name` if it is not null. False if the structure is not a pool now.
  [[nodiscard]] bool figures(tarn_buffer_stats& out, char* name);
  // Valid while the pool has live buffers or has not ended.
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] bool is_checked() const { return settings_.checked; }

  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  // Called while fork holds the lock.
  void after_fork_in_child() TARN_NOT_ANALYZED;
  void validate_locked() const TARN_REQUIRES(lock_);

  // The pool that joined the group before this one. Set before other threads see the pool.
  buffer_core* next = nullptr;

 private:
  friend class buffer_core_test_access;
  friend struct buffer_group;

  struct settings {
    std::size_t alignment_pages = 1;
    std::size_t budget = 0;
    std::int64_t idle_ms = 0;
    std::size_t ahead = 0;
    int prefault = tarn_buffer_prefault_never;
    int huge = tarn_buffer_huge_automatic;
    bool zeroed = false;
    bool locked = false;
    bool wiped_on_fork = false;
    bool checked = false;
    std::size_t guard = 0;  // guard_bytes, or 0
  };

  // Result of find_locked().
  struct find_result {
    span* found = nullptr;      // null: a miss
    bool is_longer = false;     // `found` is to be cut
    std::int64_t since_ms = 0;  // since when `found` was kept
    bool is_zero = false;       // all bytes of `found` are zero
    bool errands = false;       // further buffers are to be got ready
  };

  [[nodiscard]] std::size_t pages_for_request(std::size_t bytes) const;
  [[nodiscard]] bool may_drop() const { return !settings_.locked; }
  [[nodiscard]] bool is_huge() const { return settings_.huge == tarn_buffer_huge_always; }
  [[nodiscard]] std::size_t budget_bytes() const;

  find_result find_locked(std::size_t pages) TARN_REQUIRES(lock_);
  bool note_demand_locked(std::size_t pages) TARN_REQUIRES(lock_);
  void cut(span* s, std::size_t pages, const find_result& of);
  void make_room(std::size_t pages);
  span* take_fresh(std::size_t pages, buffer_failure& failure);
  span* take_fresh_once(std::size_t pages, bool may_reclaim, buffer_failure& failure);
  bool lock_again(const span* s);
  void zero(span* s, bool used);
  void hand_out(span* s);

  void keep_backed_locked(span* s) TARN_REQUIRES(lock_);
  void start_leaving_locked(span* s) TARN_REQUIRES(lock_);
  span* pop_leaving_locked() TARN_REQUIRES(lock_);
  void evict_locked(std::size_t keep_bytes) TARN_REQUIRES(lock_);
  void discard_surplus();
  void disown(span* s) const;
  std::size_t discard(span* s);
  void release_to_heap(span* s);
  void unpin();
  void free_if_ended_locked() TARN_REQUIRES(lock_);
  std::size_t discard_leaving(std::size_t keep_bytes);
  bool prepare_one();

  void set_guard(const span* s) const;
  void check_guard(const span* s) const;

  buffer_group& group_;
  os::mutex lock_{os::lock_rank::pools};
  bool used_ TARN_GUARDED_BY(lock_) =
      false;  // the structure is a pool, or an ended one with live buffers or pins
  bool ended_ TARN_GUARDED_BY(lock_) = false;
  // The number of operations in progress, with the lock free, that no user of the pool waits for; while it is not 0,
  // the structure is not reused.
  std::size_t pins_ TARN_GUARDED_BY(lock_) = 0;
  bool forked_ TARN_GUARDED_BY(lock_) = false;  // a forked child: kept spans may not be locked in memory
  settings settings_;                           // written by claim() only
  char name_[longest_name + 1] = {};            // likewise
  kept_spans kept_ TARN_GUARDED_BY(lock_);
  span_list leaving_ TARN_GUARDED_BY(lock_);  // in state `kept`, oldest first
  std::size_t leaving_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t wanted_pages_ TARN_GUARDED_BY(lock_) = 0;  // length of the buffers to get ready; 0: none
  // The span that the thread preparer_, mostly the background thread, is faulting in; recorded so
  // that a forked child can free it.
  span* preparing_ TARN_GUARDED_BY(lock_) = nullptr;
  const void* preparer_ TARN_GUARDED_BY(lock_) = nullptr;
  tarn_buffer_stats counted_ TARN_GUARDED_BY(lock_) = {};  // figures() sets the rest
};

inline void buffer_core::validate_locked() const {
  kept_.validate();
  leaving_.validate();
  std::size_t leaving_sum = 0;
  for (const span* s = leaving_.front(); s != nullptr; s = s->next) leaving_sum += s->bytes();
  TARN_INVARIANT("buffer_core", this, leaving_bytes_ == leaving_sum);
  TARN_INVARIANT("buffer_core", this, (counted_.live == 0) == (counted_.live_bytes == 0));
  TARN_INVARIANT("buffer_core", this, counted_.hits <= counted_.gets);
  // The part of the budget that cannot shrink.
  TARN_INVARIANT("buffer_core", this,
                 settings_.budget == 0 || kept_.pages() << page_shift <= settings_.budget);
  TARN_INVARIANT("buffer_core", this, used_ || (counted_.live == 0 && pins_ == 0 && leaving_.empty()));
}

template <class Visit>
void for_each_pool(const buffer_group& group, Visit visit) {
  // acquire: partner of the release in add().
  buffer_core* pool = group.newest.load(std::memory_order_acquire);
  for (; pool != nullptr; pool = pool->next) visit(*pool);
}

inline void buffer_group::add(buffer_core& pool) {
  os::lock_guard guard(lock, *this);
  pool.next = newest.load(std::memory_order_relaxed);
  ++pools;
  // release: partner of the acquire in for_each_pool().
  newest.store(&pool, std::memory_order_release);
}

inline void buffer_group::validate_locked() const {
  std::size_t length = 0;
  const buffer_core* pool = newest.load(std::memory_order_relaxed);
  for (; pool != nullptr; pool = pool->next) {
    TARN_INVARIANT("buffer_group", this, ++length <= pools);
    TARN_INVARIANT("buffer_group", this, &pool->group_ == this);
  }
  TARN_INVARIANT("buffer_group", this, length == pools);
}

}  // namespace tarn
