// SPDX-License-Identifier: MIT
// recycler_core: one recycler: its budget, the objects that threads have handed over, and the older generation.
//
// An idle object is in one of three places:
//
//     bins of threads  <-->  fresh_ (handed over)         get() looks from left to right
//           |                  |
//           +--- end of cycle -+-->  victims_ (older generation)  --- end of cycle --->  destroyed
//
// So an object that is not used for two cycles is destroyed, and one that is used is taken out of the older generation
// and goes back to a bin. (The victim cache of Go's sync.Pool, golang/go#22950; there the garbage collector ends a
// cycle.)
//
// Thread safety: all members may be called by any thread. Objects are destroyed without any lock held.
// Invariant: the paid sums of the budget are those over all places of the magazines in bins, fresh_, victims_ and empty_;
// every object in them lies in a place that has paid its bytes. Every magazine in fresh_ and victims_ holds an object, and
// none in empty_.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/front_registry.hpp"
#include "fronts/recyclers/recycler_budget.hpp"
#include "fronts/recyclers/recycler_magazine.hpp"
#include "os/mutex.hpp"

namespace tarn {

struct recycler_bin;

class recycler_core : public engine::front_instance<tarn_recycler, recycler_bin> {
 public:
  // The recycler keeps `name`.
  recycler_core(const tarn_recycler_options& request, const char* name);

  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] std::string_view shown_name() const { return std::string_view(name_).substr(0, 600); }
  [[nodiscard]] unsigned cycle_ms() const { return cycle_ms_; }
  recycler_budget& budget() { return budget_; }

  // Takes a magazine that a thread has handed over; null if there is none.
  recycler_magazine* take_magazine();
  // Hands a magazine over. Requires: it holds at least one object.
  void give_magazine(recycler_magazine* m);
  // For threads without a bin: one object that was handed over; null if there is none.
  void* take_fresh() { return take_one(&recycler_core::fresh_); }
  // One object of the older generation; null if there is none. Never a whole magazine, so that objects that are not
  // needed stay there and age.
  void* take_victim() { return take_one(&recycler_core::victims_); }
  // For threads without a bin: keeps an object. False when the budget has no room for it, or there is no memory.
  bool give_one(void* object, std::size_t bytes);

  // Ends a generation: the magazines handed over, and `gathered` from bins, become the older generation. Returns the
  // magazines of the previous older generation.
  recycler_magazine* rotate_generations(recycler_magazine* gathered);
  // Whether there are no idle objects outside of bins.
  [[nodiscard]] bool is_empty();

  // Destroys the objects of a chain of magazines, and frees these; returns the number of objects. Calls the program's
  // destructors: never under a lock.
  std::size_t destroy_chain(recycler_magazine* all);
  // Frees a magazine and refunds its payments. Requires: it holds no object.
  void discard(recycler_magazine* m);

  // Threads that only get leave empty magazines to those that only give back, with the payments of their places.
  void leave_empty(recycler_magazine* m);
  // One for `wanted` objects; null if there is none.
  recycler_magazine* take_empty(std::uint16_t wanted);
  // Discards them, as at the end of a generation, or when the budget is short.
  void discard_empty();

  enum class source : std::uint8_t { exchanged, stolen, victim, miss, count };
  void note(source from, std::size_t objects = 1) {
    got_[static_cast<unsigned>(from)].fetch_add(objects, std::memory_order_relaxed);
  }
  void note_drop(tarn_recycler_drop reason, std::size_t objects = 1) {
    dropped_[reason].fetch_add(objects, std::memory_order_relaxed);
  }
  // Counts hits of threads without a bin, or of bins that are unlinked.
  void note_hits(std::uint64_t hits) { hits_.fetch_add(hits, std::memory_order_relaxed); }
  // The figures without those of bins.
  void get_figures(tarn_recycler_stats& out);

  // Set: the caretaker has to visit the recycler, as objects may have become idle since this was cleared.
  std::atomic<bool> watched{false};
  // Set by close(): no object is kept any more.
  std::atomic<bool> closed{false};

  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  // What the magazines in fresh_ and victims_ have paid is part of what the budget counts.
  void validate_locked() const TARN_REQUIRES(lock_);
  // In a forked child, where no other thread uses the lists: sets the budget to the payments of the remaining bins
  // (`of_bins`), of fresh_ and of victims_.
  void restart_budget(recycler_payment of_bins) TARN_NOT_ANALYZED;

  std::int64_t generation_began_ms = 0;  // when the generation began; guarded by the registry's lock

 private:
  friend class recycler_core_test_access;

  void* take_one(recycler_magazine* recycler_core::*list);
  template <class Visit>
  void for_each_magazine_locked(Visit visit) const TARN_REQUIRES(lock_) {
    for (recycler_magazine* list : {fresh_, victims_, empty_}) {
      for (recycler_magazine* m = list; m != nullptr; m = m->next) visit(m);
    }
  }

  const char* name_;
  unsigned cycle_ms_;
  void (*destroy_)(void* context, void* object);
  void* context_;
  recycler_budget budget_;
  std::atomic<std::uint64_t> got_[static_cast<unsigned>(source::count)] = {};
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> dropped_[tarn_recycler_drops] = {};

  alignas(cache_line) os::mutex lock_{os::lock_rank::recycler};
  recycler_magazine* fresh_ TARN_GUARDED_BY(lock_) = nullptr;
  recycler_magazine* victims_ TARN_GUARDED_BY(lock_) = nullptr;
  recycler_magazine* empty_ TARN_GUARDED_BY(lock_) = nullptr;
  std::size_t empty_count_ TARN_GUARDED_BY(lock_) = 0;
};

inline void recycler_core::validate_locked() const {
  recycler_payment sum;
  std::size_t empty = 0;
  for_each_magazine_locked([&](recycler_magazine* m) {
    empty += m->count == 0 ? 1 : 0;
    m->validate();
    m->add_to(sum);
  });
  TARN_INVARIANT("recycler_core", this, empty == empty_count_);
  TARN_INVARIANT("recycler_core", this,
                 sum.bytes <= budget_.paid_bytes() && sum.objects <= budget_.paid_objects());
}

}  // namespace tarn

// The type that the public headers declare.
struct tarn_recycler : tarn::recycler_core {
  using recycler_core::recycler_core;
};
