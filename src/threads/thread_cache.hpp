// SPDX-License-Identifier: MIT
// thread_cache: one thread's magazines. The fast paths of malloc and free end here, with no lock and no atomic
// read-modify-write; a miss goes to the ..._slow functions in thread_cache.cpp.
//
// Owner: its thread. Other threads may take the spare magazines of a cache whose thread is idle: one atomic operation
// on the pointer stores or takes a spare magazine, which then belongs to the taker. The background thread may take
// objects out of the loaded magazines while the owner sleeps (thread_cache_idle.cpp). Only the owner uses everything
// else.
//
// The loaded magazine m of one class as its bin sees it:
//
//    m->slots[0]   bottom()                         top              limit
//   +-------------+--- … ---+--------+- … -+--------+------- … ------+
//   |    null     |  nulls  | object |     | object |    not used    |
//   +-------------+--- … ---+--------+- … -+--------+------- … ------+
//                   holes_                  ^ pop()  ^ push()
//
// Invariants, for each class c with the loaded magazine m:
//   - m->slots < top <= limit, and limit - m->bottom() is at most most_[c], or the objects that m held when it was
//     loaded;
//   - objects are in [m->bottom() + holes_[c], top); the slots below are null, and m->slots[0] is null;
//   - until_sample allocations are left before the class's next stop (class_countdown.hpp);
//   - every object in a magazine has its free_mark set; no object in the program's hands has;
//   - the class has at most 2 * most_[c] objects in its two magazines;
//   - capacity_bytes_ = sum over the classes of 2 * most_ * size; of a grain class, the size of the largest block.
//
// What its thread has allocated and freed follows from counts of slow paths, so fast paths count nothing (traffic()):
//   allocated = granted_bytes_ - bytes of the allocations that are left before the classes' stops;
//   freed = allocated + bytes of objects in magazines + taken_away_bytes_ - brought_bytes_.
// (brought_bytes_: of the objects that the owner's slow paths brought in, less those that they put back.)
//
// Grain classes (grains.hpp): free() pushes blocks of grains onto magazines of their own, which nobody pops.
// The next refill of any class puts the blocks back into their spans.
//
// The bound on what all threads keep, for any mix of sizes and any number of threads:
//   bytes of the objects in all caches  <=  sum of capacity_bytes_  =  cache_budget::used  <=  cache_budget::limit.
// Every increase of most_ is paid from the budget before it takes effect, including the first capacity of a class. A
// class that has not been paid for has no magazine; its calls go to the spans, one object at a time. (Lowering the
// limit later stops further increases, but takes nothing back.) While a thread pays, `used` exceeds the sum for a
// moment, and may exceed the limit. validate() checks the first relation, that the cache's own capacity is part of
// `used`, and the invariants above except those of the sample windows and of objects in the program's hands.
//
// A class gets its first capacity after several misses, more of them for larger objects (misses_before_opening): a
// class that a thread uses once or twice costs no budget. It doubles at misses, up to the objects of one refill. Beyond
// that capacity follows use: it doubles only when malloc misses objects that the thread has put back into spans, and
// halves at each scavenge before which the class has not missed.
//
// Cold start: a thread without a cache uses an empty one, whose bins are empty and full at once, so its first call
// misses, and no fast path checks whether there is a cache.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/architecture.hpp"
#include "base/compiler.hpp"
#include "base/units.hpp"
#include "samples/byte_samples.hpp"
#include "samples/class_countdown.hpp"
#include "samples/sample_windows.hpp"
#include "slots/central.hpp"
#include "slots/free_mark.hpp"
#include "slots/magazine_bin.hpp"
#include "slots/objects.hpp"
#include "slots/size_class.hpp"
#include "threads/cache_budget.hpp"
#include "threads/hardened_quarantine.hpp"

namespace tarn {

// The part of a class that the fast paths use: a view of its loaded magazine, and the countdown to its next stop.
struct alignas(32) cache_bin {
  void** top;
  void** limit;
  std::uint64_t reciprocal;  // of the object size
  class_countdown samples;
};

// What an allocation is chosen for.
enum class sample_kind : std::uint8_t { none, guarded, profiled };

static_assert(sizeof(cache_bin) == page_map::class_step);
static_assert(size_classes::all * page_map::class_step <= page_map::class_mask);
static_assert(2 * page_map::class_mask < size_classes::most_added);

// Byte offsets of bins in the array, indexed by request size up to fine_end. One load replaces a class lookup and a
// multiplication.
constexpr auto make_fine_bins() {
  std::array<std::uint16_t, size_classes::fine_lookup.size()> offsets{};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = static_cast<std::uint16_t>(size_classes::fine_lookup[i] * sizeof(cache_bin));
  }
  return offsets;
}
inline constexpr auto fine_bins = make_fine_bins();

// What malloc pops from: the bins of a thread's cache, or of a scope that the thread has entered
// (fronts/scopes/scope_bin.hpp).
class alignas(separation) allocation_bins {
 public:
  using bin = cache_bin;

  constexpr allocation_bins() {
    for (unsigned c = 0; c < size_classes::all; ++c)
      bins_[c] = {no_magazine()->bottom(), no_magazine()->bottom(), class_info(c).reciprocal, {}};
  }

  // An object for a size. Null: the magazine is empty, or a sample may be due (thread_cache::pick_sample()); the caller
  // takes the slow path. Requires: size <= size_classes::fine_end.
  TARN_ALWAYS_INLINE void* pop_fine(std::size_t size) {
    void* const object = pop_from(bin_at(fine_bins[(size + 7) >> size_classes::fine_shift]));
    if (TARN_LIKELY(object != nullptr)) free_mark::clear(object);
    return object;
  }
  // The address of the object that pop_fine() would return; 0: none.
  TARN_ALWAYS_INLINE std::uintptr_t top_fine(std::size_t size) {
    return address_of(bin_at(fine_bins[(size + 7) >> size_classes::fine_shift]).top[-1]);
  }
  // The same for a class above fine_end: see guarded pops in thread_cache_idle.cpp.
  TARN_ALWAYS_INLINE void* pop_guarded(const page_map& map, unsigned size_class) {
    void* const object = TARN_LIKELY(may_enter()) ? pop_from(bin_at(size_class * sizeof(bin))) : nullptr;
    leave();
    if (TARN_LIKELY(object != nullptr)) free_mark::clear_coarse(map, object);
    return object;
  }
  // Called by another thread: every class stops at its next allocation, and draws the distance to the next sample of
  // the profile anew. False: the owner has overwritten that in a class; call it again, after a process_fence().
  bool expire_countdowns() {
    bool all = true;
    for (unsigned c = 1; c < size_classes::count; ++c) all = !bins_[c].samples.expire() && all;
    return all;
  }
  // From here on every pop fails once, so that its slow path can count it. For bins of scopes only.
  void count_every_pop() {
    for (bin& b : bins_) b.samples.until_sample = class_countdown::counted;
  }

 protected:
  TARN_ALWAYS_INLINE bin& bin_at(std::size_t offset) {
    return *reinterpret_cast<bin*>(reinterpret_cast<char*>(bins_) + offset);
  }

  // A compiler fence, which costs no instruction: pop() and push() access `top` and the slots once each, in program
  // order, as thread_cache_idle.cpp requires. (They are aligned machine words, so plain accesses do not tear. Relaxed
  // atomics would cost four more instructions with GCC 12.)
  TARN_ALWAYS_INLINE static void keep_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

  // A pop fails if there is no object or if a stop is due. The first condition is tested before anything
  // is written, since the bins shared by all threads without a cache are always empty. The slot is read only once:
  // another thread may set it to null (thread_cache_idle.cpp).
  TARN_ALWAYS_INLINE static void* pop_from(bin& of_class) {
    bin* b = &of_class;
    void** const top = b->top;
    void* object = top[-1];
    arch::load_as_result(object, b);
    if (TARN_UNLIKELY(object == nullptr || --b->samples.until_sample < 0)) return nullptr;
    b->top = top - 1;
    keep_order();
    return object;
  }
  // Pops an object even if a stop is due, and counts it; null: the magazine is empty.
  void* take(const page_map& map, unsigned size_class) {
    bin& b = bins_[size_class];
    void** const top = b.top;
    void* const object = top[-1];
    if (object == nullptr) return nullptr;
    --b.samples.until_sample;
    b.top = top - 1;
    keep_order();
    free_mark::clear(map, size_class, object);
    return object;
  }
  TARN_ALWAYS_INLINE bool may_enter() {
    busy_.store(true, std::memory_order_relaxed);
    // Partner: process_fence() in empty_while_idle(), which makes this a fence of the processor.
    keep_order();
    // acquire: partner of the release in end_claim().
    return !claimed_.load(std::memory_order_acquire);
  }
  // release: partner of the acquire in empty_while_idle(). Needed also if enter() fails: a thread that reads this store
  // may not have seen the one of the previous call.
  void leave() { busy_.store(false, std::memory_order_release); }

  cache_bin bins_[size_classes::all];  // first member: offsets in the array are offsets in the structure
  // busy_: the owner is between enter() and leave(). claimed_: another thread empties the cache, or is about to.
  std::atomic<bool> busy_{false};
  std::atomic<bool> claimed_{false};
  bool has_holes_ = false;  // written by the thread that has claimed the cache, and then by the owner
};

class thread_cache : public allocation_bins {
 public:
  struct empty_tag {};
  constexpr explicit thread_cache(empty_tag /*unused*/) { make_empty(); }

  thread_cache(central& c, cache_budget& budget) : central_(&c), budget_(&budget) {
    make_empty();
    quarantine_.seed();
  }

  // Hardened build. Called by the owner only.
  TARN_ALWAYS_INLINE cache_quarantine& quarantine() { return quarantine_; }

  // What the allocation for which pop() has just failed is chosen for, in the order of their places: a guarded one, or
  // one for the heap profile; of two at one place the guarded one comes next. `counts`: the thread counts its
  // allocations, and none is chosen.
  sample_kind pick_sample(unsigned size_class, sample_windows& guards, byte_samples& profile,
                          bool counts = false);
  // False: pick_sample() would say none. A thread that counts its allocations gets true.
  [[nodiscard]] bool may_pick_sample(unsigned size_class) const {
    return bins_[size_class].samples.until_sample <= 0;
  }
  // Takes back what pick_sample() has counted for the sample that it chose, because the sample was refused or there was
  // no memory for it. The caller then calls allocate_slow(), which counts the allocation.
  void forget_choice(unsigned size_class) {
    ++bins_[size_class].samples.until_sample;
    note_put_back(size_class, 1);
  }
  // The thread begins to count its allocations, or ends.
  void set_counting(bool counts);

  // Takes an object back. False: call free_slow(). `page` is the page map's entry for the object; a page without
  // objects has class 0, whose bin has the reciprocal 0: no object begins there.
  TARN_ALWAYS_INLINE bool push(page_map::entry page, void* object) {
    bin& b = bin_at(page.class_offset());
    if (TARN_UNLIKELY(!page.begins_object(address_of(object), b.reciprocal))) return false;
    void** const top = b.top;
    if (TARN_UNLIKELY(top == b.limit)) return false;
    if (TARN_UNLIKELY(page.class_offset() >= first_coarse_bin) ? !mark_unless_fine(page, object)
                                                               : !mark_inside(object))
      return false;
    put(b, top, object);
    return true;
  }
  // push() for an object that leaves the quarantine of the hardened build. False: the magazine is full.
  TARN_ALWAYS_INLINE bool push_free(unsigned size_class, void* object) {
    bin& b = bins_[size_class];
    void** const top = b.top;
    if (TARN_UNLIKELY(top == b.limit)) return false;
    put(b, top, object);
    return true;
  }

  // Refills the class's magazine and pops; if the class has no magazine, takes an object from a span. Null: no memory.
  void* allocate_slow(unsigned size_class);
  // Call after push() returned false. Makes room if the magazine was full, and tries again; if the class has no
  // magazine, puts the object into its span. False: the pointer is not an object, or is free already, or there is no
  // memory for a magazine.
  bool free_slow(unsigned size_class, page_map::entry page, void* object);

  // Gives back all magazines. Called by the owner, or after the owner has ended.
  void flush_all();
  // Called by another thread: takes the spare magazines of an idle thread. `only_if_idle`: only if the thread has made
  // no slow call since the last call. Returns whether it has made one.
  bool take_surplus(bool only_if_idle);

  // Takes the objects in the loaded magazines of a sleeping thread: see thread_cache_idle.cpp. Called by the thread
  // that has claimed the cache, without a lock.
  void empty_while_idle();
  // claim() and end_claim(): under the registry's lock. Between them the owner's slow paths do not touch the magazines.
  void claim() { claimed_.store(true, std::memory_order_relaxed); }
  // release: publishes the changes to the magazines; partner of the acquire in enter().
  void end_claim() { claimed_.store(false, std::memory_order_release); }
  [[nodiscard]] bool claimed() const { return claimed_.load(std::memory_order_relaxed); }
  // In a forked child, for the calling thread's cache: the thread that had claimed it does not exist there.
  void forget_claim();
  // Whether the thread made no slow call between the last two looks of take_surplus().
  [[nodiscard]] bool seems_idle() const { return surplus_taken_.load(std::memory_order_relaxed); }

  // Bytes that the owner has allocated and freed through this cache; blocks of grains count as one grain. Called by the
  // owner only. Approximate while another thread takes objects.
  struct traffic_bytes {
    std::uint64_t allocated;
    std::uint64_t freed;
  };
  [[nodiscard]] traffic_bytes traffic() const;
  // For the next owner, when the cache is empty.
  void forget_traffic();

  // The bytes of objects that its magazines may hold. Called by the owner only.
  [[nodiscard]] std::size_t capacity_bytes() const { return capacity_bytes_; }
  // Checks the invariants above. Called by the owner between enter() and leave(), or while it does not use the cache.
  void validate();
  // Bytes of the free objects in it; approximate if another thread calls.
  [[nodiscard]] std::size_t cached_bytes() const;

  // The kernel's ids of the owner and of its process at the time; 0: the kernel was not asked.
  long thread_id = 0;
  long process_id = 0;
  // Its depots of the classes that have several (central.hpp). Written under the registry's lock.
  std::uint8_t home = 0;
  // Links of the registry's lists, guarded by its lock.
  thread_cache* next = nullptr;
  thread_cache* previous = nullptr;
  // Guarded by the registry's lock: the owner has ended.
  bool ended = false;

 private:
  friend class thread_cache_test_access;

  class class_bin;

  constexpr void make_empty() {
    for (magazine*& m : loaded_) m = no_magazine();
    for (sample_countdown& guard : guard_places_) guard = sample_countdown::unplanned();
  }
  static constexpr std::size_t first_coarse_bin = (size_classes::fine_lookup.back() + 1) * sizeof(bin);
  static constexpr std::size_t first_grain_bin = size_classes::count * sizeof(bin);

  // Set the object's mark. False: it is set.
  TARN_ALWAYS_INLINE static bool mark_inside(void* object) {
    if (TARN_UNLIKELY(free_mark::is_set(object))) return false;
    free_mark::set(object);
    return true;
  }
  TARN_ALWAYS_INLINE static bool mark_unless_fine(page_map::entry page, void* object) {
    if (TARN_UNLIKELY(page.class_offset() >= first_grain_bin)) return mark_inside(object);
    std::uint8_t& mark = page.mark(address_of(object));
    if (TARN_UNLIKELY(free_mark::is_set(mark))) return false;
    free_mark::write(mark, true);
    return true;
  }
  // Whether an object begins at this address and is not free.
  bool is_live(page_map::entry page, unsigned size_class, const void* object) const {
    return page.begins_object(address_of(object), bins_[size_class].reciprocal) &&
           !free_mark::is_set(central_->map(), size_class, object);
  }

  void validate_class(unsigned size_class);
  std::int32_t next_profiled(unsigned size_class, byte_samples& profile, bool is_early);
  void grant(unsigned size_class, std::int64_t allocations);
  // Objects that slow paths brought into the magazines, or put back.
  void note_brought(unsigned size_class, std::size_t objects) {
    brought_bytes_ += objects * class_info(size_class).size;
  }
  void note_put_back(unsigned size_class, std::size_t objects) {
    brought_bytes_ -= objects * class_info(size_class).size;
  }

  // The owner is about to change its magazines other than by pop() and push(). False: another thread has claimed the
  // cache.
  bool enter() {
    if (TARN_UNLIKELY(!may_enter())) {
      leave();
      return false;
    }
    if (TARN_UNLIKELY(has_holes_)) close_holes();
    return true;
  }
  void close_holes();
  magazine* take_loaded(unsigned size_class);
  void give_back_taken(unsigned size_class, magazine* taken, void** top);
  void* allocate_entered(unsigned size_class);
  void free_uncached(unsigned size_class, void* object);
  bool free_entered(unsigned size_class, page_map::entry page, void* object);

  // Puts an object onto the magazine, which has room.
  TARN_ALWAYS_INLINE static void put(bin& b, void** top, void* object) {
    *top = object;
    keep_order();
    b.top = top + 1;
    keep_order();
  }

  [[nodiscard]] bool is_empty(unsigned size_class) const { return loaded_[size_class] == no_magazine(); }

  bool raise_most(unsigned size_class, std::size_t most);
  void lower_most(unsigned size_class, std::size_t most);
  bool open(unsigned size_class);
  magazine* new_magazine(unsigned size_class);
  void discard(unsigned size_class, magazine* m);
  [[nodiscard]] bool is_one_way(unsigned size_class) const;
  // The most objects of one refill; and the most in a magazine, unless the thread has missed what it had put back.
  static std::size_t most_of_refill(unsigned size_class) { return class_info(size_class).magazine; }
  [[nodiscard]] std::size_t most_now(unsigned size_class) const;
  [[nodiscard]] std::size_t budget_share() const;
  void flush_and_free(unsigned size_class, magazine* m);
  void empty_bin(unsigned size_class);
  void flush_grains();
  void give_up_bin(unsigned size_class);
  void halve_bin(unsigned size_class);
  void flush_quarantine();
  void scavenge();
  void note_slow_call(unsigned size_class);

  void* take_one(unsigned size_class);

  // Cold from here on.
  magazine* loaded_[size_classes::all];
  spare_magazine<magazine> spare_[size_classes::all];
  central* central_ = nullptr;
  cache_budget* budget_ = nullptr;
  std::atomic<std::uint32_t> slow_calls_seen_{0};  // as of the last take_surplus
  std::atomic<bool> surplus_taken_{false};         // nothing to take since then
  std::atomic<std::uint32_t> slow_calls_{0};
  // One cached empty magazine per size, so that a swap need not lock the magazine store.
  magazine* empty_[magazine_store::sizes] = {};
  std::size_t capacity_bytes_ = 0;
  std::uint64_t granted_bytes_ = 0;
  // Of the guarded allocations: until_sample is relative to the class's stop.
  sample_countdown guard_places_[size_classes::count];
  std::uint32_t profile_epoch_ = 0;  // of byte_samples, when the distances in the bins were drawn
  std::uint64_t brought_bytes_ = 0;  // wraps
  std::atomic<std::uint64_t> taken_away_bytes_{0};  // by other threads
  // Per class: null slots at the bottom of the loaded magazine.
  std::uint8_t holes_[size_classes::all] = {};
  // Objects that each of the two magazines may hold; 0: the class has no magazine.
  std::uint8_t most_[size_classes::all] = {};
  // Misses since the last scavenge, while the class has no magazine.
  std::uint8_t misses_[size_classes::all] = {};
  // The thread has put objects back into spans since the last scavenge.
  bool has_put_back_[size_classes::all] = {};
  // Misses in a row in one direction: positive for free, negative for malloc.
  std::int8_t streak_[size_classes::all] = {};
  // `top` at the last scavenge; null: a slow call has used the class since.
  void** last_top_[size_classes::all] = {};
  [[no_unique_address]] cache_quarantine quarantine_;
};

}  // namespace tarn
