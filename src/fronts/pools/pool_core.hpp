// SPDX-License-Identifier: MIT
// pool_core: one pool: its slot layout, limits and shards, and the movement of slots between bins and shards.
//
//     bins (threads)          shards                     page heap
//     loaded, spare   <-->   full magazines
//                     <-->   spans of slots     <-->    spans of pages
//
// Thread safety: all members may be called by any thread, unless their comments say otherwise.
// Invariant: bytes_ = sum of the lengths of the spans of all shards, and of those that are just being added or moved.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/front_registry.hpp"
#include "fronts/pools/pool_shard.hpp"
#include "fronts/pools/pool_shared.hpp"
#include "fronts/pools/slot_layout.hpp"
#include "os/node.hpp"
#include "pages/page_map.hpp"
#include "pages/span.hpp"
#include "slots/magazine.hpp"
#include "tarn/detail/pool_bin.hpp"

namespace tarn {

struct pool_bin;
class pool_core;

// Puts the free slots that the pool's bins can spare back into spans. Called without a lock, when there is no memory
// for another span. Declared here and defined by the layer that knows all bins (pool_registry.cpp): the linker binds
// the call, so no writable memory holds the address of a function.
void gather_spare_slots(pool_core& pool);

class pool_core : public pool_shared, public engine::front_instance<tarn_pool, pool_bin> {
 public:
  // Bit sets (books) of a checked pool's span: see checked_slots.
  static constexpr std::size_t checked_books = 3;
  static constexpr unsigned most_shards = 64;
  // Up to this number of threads each has a shard, and thus spans, of its own: a slot that it gets was its own before,
  // and is in its processor's caches and TLB.
  static constexpr unsigned standard_shards = 32;

  // The pool keeps `name`.
  pool_core(const tarn_pool_options& request, const char* name);

  // The pool that the address lies in a span of, or null.
  static tarn_pool* owner_of(const void* address);

  [[nodiscard]] bool is_checked() const { return checked_; }
  [[nodiscard]] bool is_single() const { return single_; }
  [[nodiscard]] pool_shard& first_shard() { return first_shard_; }
  // The shard for a new bin of a thread on this memory node: one without bins, else a new one if the pool may have
  // more, else the one with the fewest bins, of the same node if there is one (os::place_cost()).
  // Requires: the registry's lock is held.
  pool_shard& assign_shard_locked(unsigned node = os::unknown_node);
  // In a forked child: resets the number of bins of each shard.
  void forget_bins() {
    for_each_shard([](pool_shard& s) { s.bins.store(0, std::memory_order_relaxed); });
  }

  // Fills the empty magazine with at most `most` free slots: slots of the shard that were used before, then of spans
  // that other shards can spare, then fresh ones. The slots at the lowest addresses are on top. Returns their number,
  // 0 when there is no memory or the pool's limit is reached. May call the system.
  std::size_t refill(pool_shard& own, magazine* m, std::size_t most);
  // Puts slots back into their spans. Aborts on a pointer that is not a slot of the pool, or free already.
  void flush(void* const* freed, std::size_t count);
  // Puts the slots of a chain of magazines back, and frees the magazines. Requires: note_moving() has counted the
  // slots.
  void put_back(magazine* all);
  // The same for full magazines of the shard that nobody needed in a period of decay, which ends, or for all.
  void put_back_waiting(pool_shard& s, bool all);

  // Hands a full magazine over to the shard to which its first slot belongs, whose threads are most likely to need it.
  // Sets `empty` to an empty magazine in exchange, or null. False, and nothing is done, if the shard has enough.
  static bool give_full(magazine* m, magazine*& empty);

  // Adds spans until `slots` slots can be handed out. False when there is no memory.
  bool reserve(std::size_t slots);

  // To be called after flush(): gives empty spans beyond the pool's limit to the page heap, and makes sure that decay
  // will visit the pool, unless the heap is small. Requires: the caller holds no lock.
  void release_surplus();
  // One period of decay: idle full magazines go back into spans, empty spans to the page heap. Requires: the caller
  // holds no lock.
  void age();
  // Whether age() may find something to give back.
  [[nodiscard]] bool has_work() const {
    return touched_.load(std::memory_order_relaxed) || spare_bytes.load(std::memory_order_relaxed) != 0 ||
           idle_periods_.load(std::memory_order_relaxed) < periods_to_purge;
  }
  // Puts all full magazines back into spans, gives all empty spans to the page heap, and all other idle pages to the
  // system.
  void trim();

  // Frees all spans, those with live objects too; returns their bytes. Requires: no thread uses the pool, and its bins
  // are empty.
  std::size_t release_everything();
  // Frees the memory of the shards. Requires: the pool is not used any more.
  void free_shards();

  // Slots outside of spans: live, in bins, in full magazines, in transit, or lost.
  [[nodiscard]] std::size_t taken() const {
    return sum([](pool_shard& s) { return s.taken(); });
  }
  // Of these, those that are neither live nor in a bin: in full magazines, in transit to a span, or lost by fork.
  [[nodiscard]] std::size_t waiting() const;
  // Sum of the shards' peaks: an upper bound of the most slots taken at one time.
  [[nodiscard]] std::size_t peak() const {
    return sum([](pool_shard& s) { return s.peak(); });
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t refills() const { return refills_.load(std::memory_order_relaxed); }
  // Counts a magazine that a bin has loaded: one of its slots serves the allocation that missed, the others hits.
  void note_loaded(std::size_t slots) { hits_.fetch_add(slots - 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

  // Whether there are slots that lie neither in a span nor in a magazine and are not live. Those that a fork has lost
  // stay so.
  [[nodiscard]] bool has_moving_slots() const { return moving_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool has_lost_slots() const { return lost_slots_.load(std::memory_order_relaxed); }
  // In a forked child: no thread exists any more that would move the slots.
  void note_lost_slots(bool lost) {
    lost_slots_.store(lost || has_moving_slots(), std::memory_order_relaxed);
  }

  template <class Visit>
  void for_each_shard(Visit visit) const {
    // acquire: partner of the release in assign_shard_locked().
    const unsigned count = shard_count_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < count; ++i) visit(*shards_[i]);
  }

  void walk_locks(const os::lock_walk& walk);
  // Checks the sums over the shards. Takes the locks of all of them at once, in their order, as fork does.
  void validate() TARN_NOT_ANALYZED;

  // Used by pool_registry, guarded by its lock.
  pool_bin* own_bin = nullptr;  // the bin of a single-threaded pool
  bool bin_is_owners = false;   // own_bin lies in memory of the pool's owner (tarn_pool_options::own_bin)
  bool shared = false;          // a process-wide pool, found by name

  const void* const owner;  // tarn_pool_options::owner
  std::atomic<bool> ended_early{
      false};  // with live objects; whether they are a leak is known at the process's exit

 private:
  friend struct checked_slots;
  friend class pool_core_test_access;

  // Over all shards.
  [[nodiscard]] std::size_t sum(std::size_t (*of)(pool_shard&)) const;
  // The words of one bit set of the span, and the bytes of all its bit sets.
  [[nodiscard]] std::size_t book_words(const span* s) const { return objects::words(slots_in(s)); }
  [[nodiscard]] std::size_t bits_bytes(const span* s) const;
  // Moves a fresh span to `own` that reserve() has left in the first shard. False when there is none.
  bool take_reserved(pool_shard& own);
  static constexpr std::size_t flushed_at_once = 128;
  void flush_part(void* const* freed, std::size_t count);
  void put_back_one(magazine* m);
  // Moves a span with free slots to `own` from a shard that can spare it. False when there is none.
  bool take_spared(pool_shard& own);
  // Decides by bytes() whether the pool is larger than the processor's caches. If two threads decide differently at
  // once, the next added or freed span corrects it.
  void review_size();
  void set_ordered(bool beyond_caches);
  // A span from the page heap, accounted in bytes_; null when there is no memory, or the limit is reached.
  span* new_span();
  // Adds a new span to the shard. Returns its slots; 0 when there is no memory, or the limit is reached.
  std::size_t add_span(pool_shard& to);
  // Adds one span and, unless the pool is larger than the caches, some more as it grows. False when there is no memory.
  bool add_spans(pool_shard& to);
  // The last resort: takes free slots of any shard; then those of full magazines and other threads' spare magazines.
  std::size_t take_anywhere(magazine* m, std::size_t most);
  void destroy_span(span* s, page_backing backing);
  void release_empty_spans(std::size_t keep, page_backing backing);

  std::size_t objects_per_span_;
  std::size_t limit_;
  std::atomic<bool> beyond_caches_{
      false};  // larger than the caches: slots are reused in the order of their addresses
  std::atomic<bool> lost_slots_{false};  // a fork has left slots that belong to nobody
  bool checked_;
  bool single_;
  unsigned shard_limit_;
  std::atomic<unsigned> shard_count_{1};
  pool_shard first_shard_{*this, 0};
  pool_shard* shards_[most_shards] = {&first_shard_};
  // After this number of periods of decay without a slow call, the pages of free slots go back to the system.
  static constexpr unsigned periods_to_purge = 1;
  void purge_idle_pages();

  std::atomic<bool> touched_{false};  // a slow call was made since the last period of decay
  std::atomic<unsigned> idle_periods_{
      periods_to_purge};  // since the last slow call, counted up to periods_to_purge
  // On cache lines of their own, because each refill writes them; the members above are read by all threads and rarely
  // written.
  alignas(separation) std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint64_t> refills_{0};
  std::atomic<std::uint64_t> hits_{0};
};

inline void pool_core::validate() {
  for_each_shard([](pool_shard& s) TARN_NOT_ANALYZED { s.lock.lock(); });
  std::size_t in_shards = 0;
  std::size_t spare = 0;
  for_each_shard([&](pool_shard& s) TARN_NOT_ANALYZED {
    s.for_each_span_locked([&in_shards](const span& each) { in_shards += each.bytes(); });
    spare += s.spare_bytes();
  });
  TARN_INVARIANT("pool_core", this, in_shards <= bytes());
  TARN_INVARIANT("pool_core", this, spare_bytes.load(std::memory_order_relaxed) == spare);
  for_each_shard([](pool_shard& s) TARN_NOT_ANALYZED { s.lock.unlock(); });
}

}  // namespace tarn

// The type that the public headers declare.
struct tarn_pool : tarn::pool_core {
  using pool_core::pool_core;
};
