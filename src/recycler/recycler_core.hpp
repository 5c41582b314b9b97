// SPDX-License-Identifier: MIT
// recycler_core: one recycler: its budget, the objects that threads have handed over, and the older generation.
//
// An object that waits is in one of: a thread's bin (recycler_bin.hpp), handed over (fresh_), the older generation
// (victims_). A generation ends after a cycle: what waits everywhere becomes the older generation, and what was that
// before is destroyed. So an object that nobody wants for two cycles is gone, and one that is wanted is taken out of the
// older generation, and stays. (The victim cache of Go's sync.Pool, golang/go#22950; there the collector ends a cycle.)
//
// Thread safety: all members may be called by any thread. Objects are destroyed under no lock.
// Invariant: budget = the sum of what is paid for all places of the magazines in bins, fresh_ and victims_; every object
// in them lies in a place that is paid.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/mutex.hpp"
#include "os/pin_count.hpp"
#include "recycler/recycler_budget.hpp"
#include "recycler/recycler_magazine.hpp"

namespace tarn {

struct recycler_bin;

class recycler_core {
 public:
  // `name` stays the recycler's.
  recycler_core(const tarn_recycler_request& request, const char* name);

  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] std::string_view shown_name() const { return std::string_view(name_).substr(0, 600); }
  [[nodiscard]] unsigned cycle_ms() const { return cycle_ms_; }
  recycler_budget& budget() { return budget_; }

  // What a thread has handed over; null if there is nothing. The whole magazine, and it is the caller's.
  recycler_magazine* take_magazine();
  void give_magazine(recycler_magazine* m);
  // One object, for those who have no bin: handed over, or null.
  void* take_fresh() { return take_one(fresh_); }
  // Of the older generation: one at a time, so that what nobody wants stays there. Null if there is none.
  void* take_victim() { return take_one(victims_); }
  // False when the budget has no room for it, or there is no memory for a magazine.
  bool give_one(void* object, std::size_t bytes);

  // Ends a generation: what was handed over, and `gathered` from bins, becomes the older one. Returns what was that.
  recycler_magazine* turn(recycler_magazine* gathered);
  // Nothing waits that is not in a bin.
  [[nodiscard]] bool is_empty();

  // Destroys what is in the chain, and its magazines. Calls the program's code: never under a lock. Returns the objects.
  std::size_t destroy_chain(recycler_magazine* chain);
  // Frees the magazine; what it has paid is free again. Requires: no object in it.
  void discard(recycler_magazine* m);

  enum class source : std::uint8_t { exchanged, stolen, victim, miss, count };
  void note(source from, std::size_t objects = 1) {
    got_[static_cast<unsigned>(from)].fetch_add(objects, std::memory_order_relaxed);
  }
  void note_drop(tarn_recycler_drop reason, std::size_t objects = 1) {
    dropped_[reason].fetch_add(objects, std::memory_order_relaxed);
  }
  // Hits without a bin, or of bins that are gone.
  void note_hits(std::uint64_t hits) { hits_.fetch_add(hits, std::memory_order_relaxed); }
  // Without the bins.
  void get_figures(tarn_recycler_figures& out);

  // Something may have come to wait since this was cleared.
  std::atomic<bool> watched{false};
  // No object is kept any more.
  std::atomic<bool> closed{false};

  os::mutex& lock() { return lock_; }
  // In a forked child, with all locks free; `own` are the bins left.
  void restart_budget(std::size_t bytes, std::size_t objects);

  // Of recycler_registry, guarded by its lock.
  recycler_core* next = nullptr;
  recycler_bin* bins = nullptr;
  os::pin_count pins;  // while it is pinned, the recycler is not closed
  std::size_t number = 0;
  std::int64_t turned_ms = 0;  // when the generation began

 private:
  void* take_one(recycler_magazine*& list);

  const char* name_;
  unsigned cycle_ms_;
  void (*destroy_)(void* context, void* object);
  void* context_;
  recycler_budget budget_;
  std::atomic<std::uint64_t> got_[static_cast<unsigned>(source::count)] = {};
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> dropped_[tarn_recycler_drops] = {};

  alignas(cache_line) os::mutex lock_{os::lock_rank::recycler};
  recycler_magazine* fresh_ = nullptr;    // guarded by lock_; none in it is empty
  recycler_magazine* victims_ = nullptr;  // likewise
};

}  // namespace tarn

// What the public headers know by name only.
struct tarn_recycler : tarn::recycler_core {
  using recycler_core::recycler_core;
};
