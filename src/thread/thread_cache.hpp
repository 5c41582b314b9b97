// SPDX-License-Identifier: MIT
// thread_cache: one thread's magazines. The fast paths of malloc and free end here, with no lock and no
// atomic read-modify-write; what misses goes to the ..._slow functions in thread_cache.cpp.
//
// Owner: its thread. Other threads may take spare magazines of a cache whose thread is idle; a spare magazine
// is put and taken by one atomic operation on its pointer, and belongs to whoever took it. Of the loaded magazines the
// background thread may take objects while the owner sleeps (thread_cache_idle.cpp). All else is the thread's alone.
//
// Invariants, for each class c with the loaded magazine m:
//   - m->slots < top <= limit, and limit - m->bottom() is at most most_[c], or what m held when it came;
//   - objects lie in [m->bottom() + holes_[c], top), below them are nulls, and m->slots[0] is null;
//   - until_sample + after_sample + 1 allocations are left of the class's window, or of two when one has just begun;
//   - every object in a magazine has its free_mark set, no object in the program's hands has;
//   - the class has at most 2 * most_[c] objects in its two magazines;
//   - capacity_bytes_ = sum over the classes of 2 * most_ * size.
//
// The bound on what threads keep, for any mix of sizes and any number of threads:
//   bytes of the objects in all caches  <=  sum of capacity_bytes_  =  cache_budget::used  <=  cache_budget::limit.
// Every increase of most_ is paid for before it takes effect, the first place of a class included; a class that is not
// paid for has no magazine, and its calls go to the spans one object at a time. (A limit that is lowered later binds
// increases only.) holds_its_bound() checks the first relation and the sum.
//
// A class gets its first place when the thread has missed in it several times, the more often the larger its objects
// are (misses_for_a_place): what a thread used once or twice leaves nothing behind.
//
// Cold start: a thread without a cache has an empty one, whose bins are empty and full at once, so that its
// first call misses and no fast path asks whether there is a cache.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "central/central.hpp"
#include "central/free_mark.hpp"
#include "central/magazine.hpp"
#include "central/objects.hpp"
#include "central/size_class.hpp"
#include "thread/hardened_quarantine.hpp"
#include "thread/sample_windows.hpp"

namespace tarn {

// How many bytes thread caches may hold together, and how many they hold.
struct cache_budget {
  // From here on, decay looks for threads that have fallen idle.
  static constexpr std::size_t watch_bytes = 2 * mib;

  std::atomic<std::size_t> limit{64 * mib};
  std::atomic<std::size_t> caches{0};
  // Of the hardened build: whether there have ever been two caches at the same time. Until then nobody else frees.
  std::atomic<bool> has_had_several{false};
  alignas(separation) std::atomic<std::size_t> used{0};
};

// The magazine of a class that a thread has loaded, as the fast paths see it.
struct alignas(32) cache_bin {
  void** top;
  void** limit;
  std::uint64_t reciprocal;   // of the object size
  std::int32_t until_sample;  // allocations left before the next guarded one; below zero: it is due
  std::int32_t after_sample;  // of the same window, behind the guarded one; no_window before the first one

  static constexpr std::int32_t no_window = -1;
};

// Where the bin of a request of up to fine_end bytes lies in the array of bins. One load gives what the class would have
// to be multiplied for.
constexpr auto make_fine_bins() {
  std::array<std::uint16_t, size_classes::fine_lookup.size()> offsets{};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = static_cast<std::uint16_t>(size_classes::fine_lookup[i] * sizeof(cache_bin));
  }
  return offsets;
}
inline constexpr auto fine_bins = make_fine_bins();

class alignas(separation) thread_cache {
  cache_bin bins_[size_classes::all];  // first, so that their offsets are those from the cache

 public:
  using bin = cache_bin;

  // What a bin without a magazine has loaded: it is empty and full at once.
  static magazine* no_magazine() { return &none_; }

  struct empty_tag {};
  constexpr explicit thread_cache(empty_tag /*unused*/) { make_empty(); }

  thread_cache(central& c, cache_budget& budget) : central_(&c), budget_(&budget) {
    make_empty();
    quarantine_.seed();
  }

  // Of the hardened build. By the thread itself.
  TARN_ALWAYS_INLINE cache_quarantine& quarantine() { return quarantine_; }

  // An object of the class, or null: then allocate_slow, or a guarded allocation is due (sample_is_due).
  TARN_ALWAYS_INLINE void* pop(unsigned size_class) { return pop_from(bins_[size_class]); }
  // The same for a size. Requires: size <= size_classes::fine_end.
  TARN_ALWAYS_INLINE void* pop_fine(std::size_t size) {
    const std::size_t offset = fine_bins[(size + 7) >> size_classes::fine_shift];
    return pop_from(*reinterpret_cast<bin*>(reinterpret_cast<char*>(bins_) + offset));
  }

  // Whether the next allocation of the class is to be a guarded one. If so, the next window has begun.
  bool sample_is_due(unsigned size_class, sample_windows& windows);

  // Takes an object back. False: free_slow.
  // `page` is the page map's entry for the object; for a page without objects it gives bin 0, which is always
  // full.
  TARN_ALWAYS_INLINE bool push(page_map::entry page, void* object) {
    bin& b = bins_[page.size_class()];
    void** const top = b.top;
    if (TARN_UNLIKELY(top == b.limit)) return false;
    if (TARN_UNLIKELY(!is_live(page, b, object))) return false;
    put(b, top, object);
    return true;
  }
  // push() for what leaves the quarantine of the hardened build. False: the magazine is full.
  TARN_ALWAYS_INLINE bool push_free(unsigned size_class, void* object) {
    bin& b = bins_[size_class];
    void** const top = b.top;
    if (TARN_UNLIKELY(top == b.limit)) return false;
    put(b, top, object);
    return true;
  }

  // pop() for classes above the fast path's: see guarded_pops in thread_cache_idle.cpp.
  TARN_ALWAYS_INLINE void* pop_guarded(unsigned size_class) {
    if (TARN_UNLIKELY(!enter())) return nullptr;
    void* const object = pop(size_class);
    leave();
    return object;
  }

  // Refills the class's magazine and pops; takes an object from a span while the class has no place. Null when there is
  // no memory.
  void* allocate_slow(unsigned size_class);
  // push() returned false: makes room, if that is what was missing, and tries again; puts the object into its span while
  // the class has no place. False: the object is none, or free already, or there is no memory for a magazine.
  bool free_slow(unsigned size_class, page_map::entry page, void* object);

  // Gives back all magazines. By the thread itself, or when it has none.
  void flush_all();
  // By another thread: takes back what an idle thread is not about to use. `only_if_idle`: only if the thread
  // has made no slow call since the last time. Returns whether it has.
  bool take_surplus(bool only_if_idle);

  // Takes what lies in the loaded magazines of a thread that sleeps: see thread_cache_idle.cpp. By the one that has
  // claimed the cache, without a lock.
  void empty_while_idle();
  // Guarded by the registry's lock. Between the two the owner's slow paths leave the magazines alone.
  void claim() { claimed_.store(true, std::memory_order_relaxed); }
  // release: what was changed in the magazines, partner of the acquire in enter().
  void end_claim() { claimed_.store(false, std::memory_order_release); }
  [[nodiscard]] bool claimed() const { return claimed_.load(std::memory_order_relaxed); }
  // In a forked child, for the calling thread's cache: whoever had claimed it is not there.
  void forget_claim();
  // Whether the thread made no slow call between the last two looks of take_surplus().
  [[nodiscard]] bool seems_idle() const { return surplus_taken_.load(std::memory_order_relaxed); }

  // What its magazines may hold. By the thread itself.
  [[nodiscard]] std::size_t capacity_bytes() const { return capacity_bytes_; }
  // Whether the cache keeps to its part of the bound above. By the thread itself, or while it does not allocate.
  [[nodiscard]] bool holds_its_bound() const;
  // Bytes of the free objects in it; another thread's answer is a moment old.
  [[nodiscard]] std::size_t cached_bytes() const;

  // The system's numbers of the thread that the cache belongs to, and of the process that it was in then; 0 if nobody
  // asked.
  long thread_id = 0;
  long process_id = 0;
  // Links of the registry's lists, guarded by its lock.
  thread_cache* next = nullptr;
  thread_cache* previous = nullptr;
  // Guarded by it, too: the thread has ended.
  bool ended = false;

 private:
  friend class thread_cache_test_access;

  static constinit magazine none_;

  constexpr void make_empty() {
    for (unsigned c = 0; c < size_classes::all; ++c) {
      bins_[c] = {none_.slots + 1, none_.slots + 1, class_info(c).reciprocal, 0, bin::no_window};
    }
    for (magazine*& m : loaded_) m = &none_;
  }
  // Whether an object begins there that is not free.
  TARN_ALWAYS_INLINE static bool is_live(page_map::entry page, const bin& b, const void* object) {
    return is_multiple(page.distance(address_of(object)), b.reciprocal) && !free_mark::is_set(object);
  }
  // A fence of the compiler: pop() and push() read and write `top` and the slots once each and in program order, as
  // thread_cache_idle.cpp relies on. (Words of the machine, aligned: plain accesses are single ones. As relaxed atomics
  // they cost GCC 12 four instructions more.) Costs no instruction.
  TARN_ALWAYS_INLINE static void keep_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

  // The owner begins to work on its magazines otherwise than by pop() and push(). False: somebody else does.
  bool enter() {
    busy_.store(true, std::memory_order_relaxed);
    // Partner: process_fence() in empty_while_idle(), which makes this a fence of the processor.
    keep_order();
    // acquire: partner of the release in end_claim().
    if (TARN_UNLIKELY(claimed_.load(std::memory_order_acquire))) {
      leave();
      return false;
    }
    if (TARN_UNLIKELY(has_holes_)) close_holes();
    return true;
  }
  // release: partner of the acquire in empty_while_idle(). Also where enter() fails: who sees that store has not seen the
  // one of the call before.
  void leave() { busy_.store(false, std::memory_order_release); }
  void close_holes();
  magazine* take_loaded(unsigned size_class);
  void give_back_taken(unsigned size_class, magazine* taken, void** top);
  void* allocate_entered(unsigned size_class);
  void free_uncached(unsigned size_class, void* object);
  bool free_entered(unsigned size_class, page_map::entry page, void* object);

  // Onto the magazine, which has room.
  TARN_ALWAYS_INLINE static void put(bin& b, void** top, void* object) {
    free_mark::set(object);
    *top = object;
    keep_order();
    b.top = top + 1;
    keep_order();
  }

  // Two conditions on the way to an object: there is one, and no guarded allocation is due. The first one is asked
  // before anything is written, as the bins that all threads without a cache share are always empty.
  // The slot is read once: another thread may replace it by null (thread_cache_idle.cpp).
  TARN_ALWAYS_INLINE static void* pop_from(bin& of_class) {
    bin* b = &of_class;
    void** const top = b->top;
    void* object = top[-1];
#if defined(__x86_64__)
    // Loaded into the register of the result at once: an instruction less.
    asm("" : "+a"(object), "+d"(b));
#endif
    if (TARN_UNLIKELY(object == nullptr || --b->until_sample < 0)) return nullptr;
    b->top = top - 1;
    keep_order();
    free_mark::clear(object);
    return object;
  }
  [[nodiscard]] bool is_empty(unsigned size_class) const { return loaded_[size_class] == no_magazine(); }

  // A spare magazine changes hands. Only the owner puts one, where there is none.
  magazine* take_spare_magazine(unsigned size_class);
  void put_spare_magazine(unsigned size_class, magazine* m);

  void load(unsigned size_class, magazine* m);
  void unload(unsigned size_class);
  bool raise_most(unsigned size_class, std::size_t most);
  void clear_most(unsigned size_class);
  bool open(unsigned size_class);
  magazine* trim_to_budget(unsigned size_class, magazine* m);
  magazine* new_magazine(unsigned size_class);
  void discard(magazine* m);
  [[nodiscard]] bool is_one_way(unsigned size_class) const;
  [[nodiscard]] std::size_t most_now(unsigned size_class) const;
  [[nodiscard]] std::size_t share() const;
  bool pay(std::size_t bytes, std::size_t of_limit);
  bool grow(unsigned size_class);
  void make_room(unsigned size_class);
  void hand_over(unsigned size_class, magazine* m);
  void flush_and_free(unsigned size_class, magazine* m);
  void empty_bin(unsigned size_class);
  void give_up_bin(unsigned size_class);
  void flush_quarantine();
  void scavenge();
  void note_slow_call(unsigned size_class);

  void* take(unsigned size_class);
  void* take_one(unsigned size_class);

  // Cold from here on.
  magazine* loaded_[size_classes::count];
  std::atomic<magazine*> spare_[size_classes::count] = {};
  central* central_ = nullptr;
  cache_budget* budget_ = nullptr;
  std::atomic<std::uint32_t> slow_calls_seen_{0};  // as of the last take_surplus
  std::atomic<bool> surplus_taken_{false};         // nothing to take since then
  std::atomic<std::uint32_t> slow_calls_{0};
  magazine* empty_[magazine_store::sizes] = {};  // one of each size at hand, so that exchanges need no store
  std::size_t capacity_bytes_ = 0;
  // The owner is inside; somebody who empties the cache while its owner sleeps is, or is about to be.
  std::atomic<bool> busy_{false};
  std::atomic<bool> claimed_{false};
  bool has_holes_ = false;  // written by who has claimed the cache, and then by the owner
  std::uint8_t holes_[size_classes::count] = {};  // null slots at the bottom of the loaded magazine
  std::uint8_t most_[size_classes::count] =
      {};  // objects that a magazine may hold; 0: no place for the class
  std::uint8_t misses_[size_classes::count] = {};  // while the class has no place: since the last scavenge
  std::int8_t streak_[size_classes::count] = {};   // misses in a row: of free above zero, of malloc below
  void** last_top_[size_classes::count] = {};      // as of the last scavenge; null: used since
  [[no_unique_address]] cache_quarantine quarantine_;
};

}  // namespace tarn
