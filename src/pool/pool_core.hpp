// SPDX-License-Identifier: MIT
// pool_core: one pool: what its slots look like, its limits, its shards, and the way of slots between bins and shards.
//
// Thread safety: all members may be called by any thread, unless their comments say otherwise.
// Invariant: bytes_ = sum of the lengths of the spans of all shards, and of those that are just being added.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "central/magazine.hpp"
#include "os/pin_count.hpp"
#include "pages/page_map.hpp"
#include "pages/span.hpp"
#include "pool/pool_shard.hpp"
#include "pool/slot_layout.hpp"
#include "tarn/detail/pool_abi.hpp"

namespace tarn {

struct pool_bin;

class pool_core {
 public:
  static constexpr unsigned most_shards = 64;
  // As long as there are no more threads than that, each has a shard, and its memory, for itself: what it gets was its
  // own before, and is in its processor's caches and address translation.
  static constexpr unsigned standard_shards = 32;

  // `name` and `first`, memory for a shard, stay the pool's.
  pool_core(const tarn_pool_request& request, const char* name, void* first);

  [[nodiscard]] const slot_layout& layout() const { return layout_; }
  [[nodiscard]] const char* name() const { return name_; }
  // As much of it as a line can show.
  [[nodiscard]] std::string_view shown_name() const { return std::string_view(name_).substr(0, 600); }
  [[nodiscard]] bool is_checked() const { return checked_; }
  [[nodiscard]] bool is_single() const { return single_; }
  [[nodiscard]] std::size_t most_in_magazine() const { return most_in_magazine_; }
  [[nodiscard]] unsigned most_waiting() const { return most_waiting_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t slots_in(const span* s) const { return layout_.objects(s->pages, huge_); }
  [[nodiscard]] pool_shard& first_shard() const { return *shards_[0]; }
  // The shard with the fewest bins, made if the pool may have another one. With the registry's lock held.
  pool_shard& assign_shard_locked();
  // In a forked child: no thread has a bin.
  void forget_bins() {
    for_each_shard([](pool_shard& s) { s.bins.store(0, std::memory_order_relaxed); });
  }

  // Fills the empty magazine with at most `most` free slots: used ones of the shard, then of spans that other shards can
  // spare, then fresh ones.
  // Those at the lowest addresses are on top. Returns their number, 0 when there is no memory or the pool's limit is
  // reached. May call the system.
  std::size_t refill(pool_shard& own, magazine* m, std::size_t most);
  // Slots that are on their way to their spans, as those of a magazine that put_back() is going to empty, or that a
  // forked child cannot reach. They count as cached.
  void note_moving(std::ptrdiff_t slots) {
    moving_.fetch_add(static_cast<std::size_t>(slots), std::memory_order_relaxed);
  }
  // Puts slots back into their spans. Aborts on a pointer that is none of the pool's, or free already.
  void flush(void* const* freed, std::size_t count);
  // The same with all that is in a chain of magazines noted before, and with the magazines.
  void put_back(magazine* chain);

  // Leaves a full magazine with the shard that most likely wants it: its slots' own; gets an empty one for it, or null.
  // False when there are enough.
  static bool give_full(magazine* m, magazine*& empty);

  // Fresh spans until `slots` can be handed out. False when there is no memory.
  bool reserve(std::size_t slots);

  // After flushes, by a thread that holds no lock: empty spans beyond the few that the pool keeps go to the page heap,
  // and decay will look at the rest.
  void settle();
  // One period of decay. By a thread that holds no lock.
  void age();
  [[nodiscard]] bool has_work() const {
    return touched_.load(std::memory_order_relaxed) || spare_bytes.load(std::memory_order_relaxed) != 0 ||
           idle_periods_.load(std::memory_order_relaxed) < periods_to_purge;
  }
  // Empty spans of all shards, which keep the figure.
  std::atomic<std::size_t> spare_bytes{0};
  // Tunable. What one shard has beyond it goes back at the next settle(), which note_surplus() asks for.
  static constexpr std::size_t spare_limit = 8 * mib;
  void note_surplus() { has_surplus_.store(true, std::memory_order_relaxed); }
  // All full magazines go back into spans, all empty spans to the page heap, all other idle pages to the system.
  void trim();

  // All spans go back, whatever is in use in them; returns their bytes. Requires: nobody uses the pool, and its bins
  // are empty.
  std::size_t release_everything();
  // The memory of name and shards, for other pools. The pool is not used any more.
  void free_parts();

  [[nodiscard]] std::size_t taken() const;  // slots that are in no span
  [[nodiscard]] std::size_t waiting()
      const;  // of these, in full magazines, on their way from one to a span, or lost
  [[nodiscard]] std::size_t peak() const;
  [[nodiscard]] std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t refills() const { return refills_.load(std::memory_order_relaxed); }
  // A bin has got a magazine with so many slots: one for the allocation that missed, the others for hits.
  void note_loaded(std::size_t slots) { hits_.fetch_add(slots - 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

  void walk_locks(const os::lock_walk& walk);
  // With the pool's name.
  [[noreturn]] void fatal(const char* what, const void* pointer) const;

  // Of pool_registry, guarded by its lock.
  pool_core* next = nullptr;
  pool_core* previous = nullptr;
  pool_bin* bins = nullptr;
  os::pin_count pins;           // while it is pinned, the pool is not destroyed
  pool_bin* own_bin = nullptr;  // of a pool for one thread
  bool bin_is_owners = false;   // lies where the pool's owner keeps it, and ends with him
  std::size_t number = 0;       // of a pool of one's own
  bool shared = false;

 private:
  friend struct checked_slots;

  template <class Visit>
  void for_each_shard(Visit visit) const {
    // acquire: partner of the release in assign_shard_locked().
    const unsigned count = shard_count_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < count; ++i) visit(*shards_[i]);
  }
  // Words of one set of bits of the span, and the bytes of all its sets.
  [[nodiscard]] std::size_t book_words(const span* s) const { return objects::words(slots_in(s)); }
  [[nodiscard]] std::size_t bits_bytes(const span* s) const;
  // Moves a span that reserve() has put aside. False when there is none.
  bool take_reserved(pool_shard& own);
  // Moves a span with free slots here from a shard that can spare it. False when there is none.
  bool take_spared(pool_shard& own);
  // Decides by bytes() whether the pool is beyond the caches. Where threads disagree, the next span that comes or goes
  // puts it right.
  void review_size();
  void set_ordered(bool beyond_caches);
  span* new_span();
  // Returns its slots; 0 when there is no memory, or the limit is reached.
  std::size_t add_span(pool_shard& to);
  // The same for one and, in a large pool, some more. False when there is no memory.
  bool add_spans(pool_shard& to);
  // The last resort: what is left in any shard, then in full magazines and other threads' spare ones.
  std::size_t take_anywhere(magazine* m, std::size_t most);
  void destroy_span(span* s, page_backing backing);
  void release_spares(std::size_t keep, page_backing backing);

  slot_layout layout_;
  const char* name_;
  std::size_t chunk_objects_;
  std::size_t most_in_magazine_;
  std::size_t maximum_bytes_;
  std::atomic<unsigned> most_waiting_{0};   // full magazines in one shard
  std::atomic<bool> beyond_caches_{false};  // then slots are handed out in the order of their addresses
  std::atomic<bool> has_surplus_{false};
  bool huge_;
  bool checked_;
  bool single_;
  unsigned shard_limit_;
  std::atomic<unsigned> shard_count_{1};
  pool_shard* shards_[most_shards] = {};
  // So many periods of decay without a slow call, and idle pages go back.
  static constexpr unsigned periods_to_purge = 1;
  void purge_idle_pages();

  std::atomic<bool> touched_{false};                      // since the last period of decay
  std::atomic<unsigned> idle_periods_{periods_to_purge};  // as far as that
  std::atomic<std::uint8_t> walks_{0};
  // Written with every magazine; what stands above is read by all threads and hardly ever written.
  alignas(separation) std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> moving_{0};
  std::atomic<std::uint64_t> refills_{0};
  std::atomic<std::uint64_t> hits_{0};
};

}  // namespace tarn

// What the public headers know by name only.
struct tarn_pool : tarn::pool_core {
  using pool_core::pool_core;
};
