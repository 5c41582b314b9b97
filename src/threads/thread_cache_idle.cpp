// SPDX-License-Identifier: MIT
// How the objects in a sleeping thread's loaded magazines go back, although the thread may wake at any moment and its
// fast paths take no lock.
//
// The owner's pop() reads the slot below `top` and stops at a null; its push() writes the slot at `top`. So another
// thread may replace objects by null, provided that it never writes `top`, and determines afterwards which of them the
// owner had already read:
//   1. claim: from the fence on, either the owner's slow paths see `claimed_` and do not touch the magazines, or this
//      thread sees `busy_` and stops. What remains is one pop() or push() in which the owner may pause for any time.
//   2. exchange each slot below the topmost one for null. The owner may already have read the topmost object.
//   3. fence: every object that the owner read before it, except the one on top, shows in `top` by now; every slot
//      that the owner reads later is null.
//   4. read `top`; fence, to see what the owner wrote to slots before that. Then, for each slot i of step 2:
//        not null now       the owner has pushed there, so it had popped what was taken: the object is the owner's;
//        i just below top   the owner may be about to pop it, or will find the null: the object is put back;
//        i at or above top  the owner has popped it, or has just pushed it and will store `top` next: it is put back,
//                           which is harmless if it was popped, since slots at and above `top` are not used;
//        else               the owner has not read it and cannot read it any more: the object is taken.
// Guarded pops: classes above fine_end pop between enter() and leave(), so after step 1 nobody pops them, and the
// topmost object may be taken too. So a sleeping thread keeps at most one object of each class up to
// size_classes::fine_end. tests/weak_memory/sleeper_models.cpp explores the executions.
#include <algorithm>

#include "os/process_fence.hpp"
#include "threads/thread_cache.hpp"

namespace tarn {
namespace {

// Of grain classes, nobody pops.
constexpr bool has_guarded_pops(unsigned size_class) {
  return size_classes::is_grain(size_class) || class_info(size_class).size > size_classes::fine_end;
}

}  // namespace

// Step 2 for one class. Returns the objects, each at the index of its slot; null: there are none, or no memory.
magazine* thread_cache::take_loaded(unsigned size_class) {
  bin& b = bins_[size_class];
  const auto count =
      static_cast<std::size_t>(__atomic_load_n(&b.top, __ATOMIC_RELAXED) - loaded_[size_class]->bottom());
  const std::size_t kept = has_guarded_pops(size_class) ? 0 : 1;
  if (count <= kept + holes_[size_class]) return nullptr;
  magazine* const taken =
      central_->magazines().allocate(central_->metadata(), loaded_[size_class]->size_index);
  if (taken == nullptr) return nullptr;
  taken->count = static_cast<std::uint16_t>(count - kept);
  void** const from = loaded_[size_class]->bottom();
  // acq_rel, without a partner: the owner's accesses are plain, ordered by keep_order() there and by the process fences
  // here.
  for (std::size_t i = 0; i < taken->count; ++i) {
    taken->bottom()[i] = __atomic_exchange_n(from + i, nullptr, __ATOMIC_ACQ_REL);
  }
  return taken;
}

// Step 4 for one class. acquire and acq_rel: as in take_loaded().
void thread_cache::give_back_taken(unsigned size_class, magazine* taken, void** top) {
  void** const from = loaded_[size_class]->bottom();
  void** const safe_end = has_guarded_pops(size_class) ? top : top - 1;
  std::size_t ours = 0;
  std::size_t holes = 0;
  for (std::size_t i = 0; i < taken->count; ++i) {
    void** const slot = from + i;
    void* const object = taken->bottom()[i];
    if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != nullptr) continue;
    if (slot < safe_end) {
      holes = i + 1;
      if (object != nullptr) taken->bottom()[ours++] = object;
    } else {
      void* expected = nullptr;
      __atomic_compare_exchange_n(slot, &expected, object, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
  }
  __atomic_store_n(&holes_[size_class], static_cast<std::uint8_t>(holes), __ATOMIC_RELAXED);
  has_holes_ = has_holes_ || holes != 0;
  taken->count = static_cast<std::uint16_t>(ours);
  flush_and_free(size_class, taken);
}

void thread_cache::empty_while_idle() {
  // Fence: partner of keep_order() in enter(). acquire: partner of the release in leave().
  if (!os::process_fence() || busy_.load(std::memory_order_acquire)) return;
  magazine* taken[size_classes::all] = {};
  bool any = false;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    if (is_empty(c)) continue;
    taken[c] = take_loaded(c);
    any = any || taken[c] != nullptr;
  }
  if (!any) return;
  // Step 3. Partner: keep_order() in pop() and push(). It succeeds because the first call did.
  os::process_fence();
  void** tops[size_classes::all] = {};
  for (unsigned c = 1; c < size_classes::all; ++c) tops[c] = __atomic_load_n(&bins_[c].top, __ATOMIC_RELAXED);
  os::process_fence();
  for (unsigned c = 1; c < size_classes::all; ++c) {
    if (taken[c] != nullptr) give_back_taken(c, taken[c], tops[c]);
  }
}

// Called by the owner between enter() and leave(): moves the remaining objects down over the nulls.
void thread_cache::close_holes() {
  for (unsigned c = 1; c < size_classes::all; ++c) {
    if (holes_[c] == 0) continue;
    bin& b = bins_[c];
    void** to = loaded_[c]->bottom();
    for (void** from = to; from < b.top; ++from) {
      if (*from != nullptr) *to++ = *from;
    }
    __atomic_store_n(&b.top, to, __ATOMIC_RELAXED);
    __atomic_store_n(&holes_[c], std::uint8_t{0}, __ATOMIC_RELAXED);
  }
  has_holes_ = false;
}

void thread_cache::forget_claim() {
  busy_.store(false, std::memory_order_relaxed);
  if (!claimed()) return;
  claimed_.store(false, std::memory_order_relaxed);
  // How far the other thread had come is unknown: look for nulls in every class. The objects it held are lost to the
  // child.
  has_holes_ = true;
  for (std::uint8_t& holes : holes_) holes = 1;
}

}  // namespace tarn
