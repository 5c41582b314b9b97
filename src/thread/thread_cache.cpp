// SPDX-License-Identifier: MIT
#include "thread/thread_cache.hpp"

#include <algorithm>
#include <cstring>

namespace tarn {

constinit thread_cache::long_magazine thread_cache::none_{};

namespace {

// What one thread's magazines may hold before they stop growing: its share of a quarter of the budget, within
// these.
constexpr std::size_t most_per_thread = 1 * mib;
constexpr std::size_t least_per_thread = 64 * kib;
// Objects in a magazine of a class that is draining.
constexpr std::size_t most_while_draining = 4;
// Misses before a magazine of each size gives way to the next.
constexpr std::uint8_t misses_to_grow[magazine_store::sizes] = {2, 4, 255};
// Every so many slow calls, bins that have not been used meanwhile are emptied.
constexpr std::uint32_t scavenge_interval = 2048;

std::size_t most_objects(unsigned size_class, const magazine* m) {
  return std::min<std::size_t>(m->capacity, class_info(size_class).magazine);
}

// The size of magazine that holds all that the class may have in one.
std::size_t largest_index(unsigned size_class) {
  std::size_t index = 0;
  while (magazine_store::capacities[index] < class_info(size_class).magazine) ++index;
  return index;
}

}  // namespace

// ---- what others may take ----

magazine* thread_cache::take_spare(unsigned size_class) {
  os::lock_guard guard(lock_);
  magazine* const m = bins_[size_class].spare;
  __atomic_store_n(&bins_[size_class].spare, no_magazine(), __ATOMIC_RELAXED);
  return m != no_magazine() ? m : nullptr;
}

void thread_cache::put_spare(unsigned size_class, magazine* m) {
  os::lock_guard guard(lock_);
  __atomic_store_n(&bins_[size_class].spare, m != nullptr ? m : no_magazine(), __ATOMIC_RELAXED);
}

// ---- magazines ----

// A magazine has become this cache's own, or has ceased to be.
void thread_cache::account(unsigned size_class, const magazine* m, bool gained) {
  const std::size_t bytes = most_objects(size_class, m) * class_info(size_class).size;
  const std::size_t change = gained ? bytes : std::size_t{0} - bytes;
  capacity_bytes_.fetch_add(change, std::memory_order_relaxed);
  budget_->used.fetch_add(change, std::memory_order_relaxed);
}

magazine* thread_cache::new_magazine(unsigned size_class, std::size_t index) {
  magazine* m = central_->magazines().allocate(central_->metadata(), index);
  if (m != nullptr) account(size_class, m, true);
  return m;
}

void thread_cache::drop_empty(unsigned size_class, magazine* m) {
  account(size_class, m, false);
  central_->magazines().deallocate(m);
}

// A magazine that this thread does not need.
void thread_cache::hand_over(unsigned size_class, magazine* m) {
  account(size_class, m, false);
  if (m->count >= most_objects(size_class, m) && !central_->draining(size_class) &&
      central_->give_full(size_class, m))
    return;
  if (m->count != 0) central_->flush(size_class, m->bottom(), m->count);
  central_->magazines().deallocate(m);
}

void thread_cache::load(unsigned size_class, magazine* m) {
  bin& b = bins_[size_class];
  b.slots = m->slots;
  b.top = m->bottom() + m->count;
  b.limit = m->bottom() + std::max<std::size_t>(most_now(size_class, m), m->count);
}

void thread_cache::unload(unsigned size_class) {
  bin& b = bins_[size_class];
  b.loaded()->count = static_cast<std::uint16_t>(b.top - b.loaded()->bottom());
}

std::size_t thread_cache::most_now(unsigned size_class, const magazine* m) const {
  const std::size_t most = most_objects(size_class, m);
  return central_->draining(size_class) ? std::min(most, most_while_draining) : most;
}

bool thread_cache::may_hold(std::size_t more) const {
  const std::size_t limit = budget_->limit.load(std::memory_order_relaxed);
  const std::size_t caches = budget_->caches.load(std::memory_order_relaxed);
  const std::size_t share = std::clamp(limit / (4 * caches + 1), least_per_thread, most_per_thread);
  return capacity_bytes_.load(std::memory_order_relaxed) + more <= share &&
         budget_->used.load(std::memory_order_relaxed) + more <= limit;
}

// The loaded magazine gives way to a larger one with the same objects in the same slots.
bool thread_cache::grow(unsigned size_class) {
  bin& b = bins_[size_class];
  if (b.slots == no_magazine()->slots) {
    magazine* m = new_magazine(size_class, 0);
    if (m != nullptr) load(size_class, m);
    return m != nullptr;
  }
  const std::size_t index = b.loaded()->size_index + std::size_t{1};
  if (index > largest_index(size_class) || ++misses_[size_class] < misses_to_grow[index - 1]) return false;
  const std::size_t more =
      (magazine_store::capacities[index] - b.loaded()->capacity) * class_info(size_class).size;
  if (!may_hold(more)) return false;
  magazine* m = new_magazine(size_class, index);
  if (m == nullptr) return false;
  misses_[size_class] = 0;
  unload(size_class);
  m->count = b.loaded()->count;
  std::memcpy(static_cast<void*>(m->bottom()), static_cast<const void*>(b.loaded()->bottom()),
              m->count * sizeof(void*));
  drop_empty(size_class, b.loaded());
  load(size_class, m);
  return true;
}

void thread_cache::note_slow_call(unsigned size_class) {
  const std::uint32_t calls = slow_calls_.load(std::memory_order_relaxed) + 1;
  slow_calls_.store(calls, std::memory_order_relaxed);
  last_top_[size_class] = nullptr;
  if (calls % scavenge_interval == 0) scavenge();
}

// ---- slow paths ----

TARN_NOINLINE void* thread_cache::allocate_slow(unsigned size_class) {
  note_slow_call(size_class);
  bin& b = bins_[size_class];
  magazine* const spare = take_spare(size_class);
  magazine* full = spare;
  if (spare == nullptr || spare->count == 0) {
    full = central_->take_full(size_class);
    if (full != nullptr) account(size_class, full, true);
  }
  if (full != nullptr) {
    // What was loaded is empty: it, or the spare one, stays as the spare one.
    magazine* const empty = b.loaded();
    load(size_class, full);
    if (empty == no_magazine()) {
      put_spare(size_class, spare != full ? spare : nullptr);
    } else {
      empty->count = 0;
      put_spare(size_class, empty);
      if (spare != nullptr && spare != full) drop_empty(size_class, spare);
    }
    return pop(size_class);
  }
  put_spare(size_class, spare);
  grow(size_class);
  if (b.slots == no_magazine()->slots) return nullptr;
  magazine* const m = b.loaded();
  m->count = static_cast<std::uint16_t>(central_->refill(size_class, m, most_now(size_class, m)));
  load(size_class, m);
  return pop(size_class);
}

// The loaded magazine is full, or the shared empty one.
void thread_cache::make_room(unsigned size_class) {
  bin& b = bins_[size_class];
  if (central_->draining(size_class)) {
    give_up_bin(size_class);
    grow(size_class);
    return;
  }
  // A bin that has been draining has room without another magazine.
  if (b.slots != no_magazine()->slots && b.limit < b.slots + 1 + most_objects(size_class, b.loaded())) {
    unload(size_class);
    load(size_class, b.loaded());
    return;
  }
  if (grow(size_class) || b.slots == no_magazine()->slots) return;
  unload(size_class);
  magazine* const full = b.loaded();
  magazine* other = take_spare(size_class);
  if (other != nullptr && other->count != 0) {
    hand_over(size_class, other);
    other = nullptr;
  }
  if (other == nullptr) other = new_magazine(size_class, full->size_index);
  if (other != nullptr) {
    load(size_class, other);
    put_spare(size_class, full);
    return;
  }
  // No memory for a second magazine: this one is emptied in place.
  central_->flush(size_class, full->bottom(), full->count);
  full->clear();
  full->count = 0;
  load(size_class, full);
}

TARN_NOINLINE void thread_cache::free_slow(unsigned size_class, void* object) {
  note_slow_call(size_class);
  if (bins_[size_class].top == bins_[size_class].limit) make_room(size_class);
  if (!push(central_->map().find(address_of(object)), object)) central_->flush(size_class, &object, 1);
}

// ---- giving back ----

void thread_cache::give_up_bin(unsigned size_class) {
  bin& b = bins_[size_class];
  if (b.slots != no_magazine()->slots) {
    unload(size_class);
    magazine* const m = b.loaded();
    b.slots = no_magazine()->slots;
    b.top = b.limit = no_magazine()->bottom();
    hand_over(size_class, m);
  }
  if (magazine* const m = take_spare(size_class)) hand_over(size_class, m);
  misses_[size_class] = 0;
}

void thread_cache::flush_all() {
  for (unsigned c = 1; c < size_classes::count; ++c) give_up_bin(c);
}

void thread_cache::scavenge() {
  central_->nudge();
  for (unsigned c = 1; c < size_classes::count; ++c) {
    if (bins_[c].slots == no_magazine()->slots) continue;
    if (last_top_[c] == bins_[c].top) {
      give_up_bin(c);
    } else {
      last_top_[c] = bins_[c].top;
    }
  }
}

bool thread_cache::take_surplus(bool only_if_idle) {
  {
    os::lock_guard guard(lock_);
    const std::uint32_t calls = slow_calls_.load(std::memory_order_relaxed);
    const bool was_active = calls != slow_calls_seen_;
    slow_calls_seen_ = calls;
    if (was_active) surplus_taken_ = false;
    if (was_active && only_if_idle) return true;
    if (surplus_taken_) return false;
    surplus_taken_ = true;
  }
  for (unsigned c = 1; c < size_classes::count; ++c) {
    if (magazine* const m = take_spare(c)) hand_over(c, m);
  }
  return false;
}

bool thread_cache::holds(unsigned size_class, const void* object) {
  const bin& b = bins_[size_class];
  if (std::find(b.slots + 1, b.top, object) != b.top) return true;
  os::lock_guard guard(lock_);
  magazine* const m = b.spare;
  return std::find(m->bottom(), m->bottom() + m->count, object) != m->bottom() + m->count;
}

std::size_t thread_cache::cached_bytes() const {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const bin& b = bins_[c];
    std::size_t objects = static_cast<std::size_t>(b.top - b.loaded()->bottom());
    objects += b.spare->count;
    bytes += objects * class_info(c).size;
  }
  return bytes;
}

}  // namespace tarn
