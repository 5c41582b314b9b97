// SPDX-License-Identifier: MIT
// What a thread's cache may hold, and how it pays for that: the part of thread_cache that works with cache_budget.
//
// Thread safety: by the cache's own thread; the budget is shared, by atomic operations. Invariants: see thread_cache.hpp.
#include <algorithm>

#include "thread/thread_cache.hpp"

namespace tarn {
namespace {

// What magazines may hold before they stop growing: half as much as the heap, divided among the threads, within
// these bounds.
constexpr std::size_t least_for_all = 8 * mib;
constexpr std::size_t most_per_thread = 4 * mib;
constexpr std::size_t least_per_thread = 64 * kib;
// What a bin may hold at first.
constexpr std::size_t first_bytes = 4 * kib;
constexpr std::size_t first_objects = 12;
// The part of the budget that is kept for the first places of classes, so that threads that came early do not leave
// the later ones without any.
constexpr std::size_t part_for_first_places = 4;

std::size_t first_most(unsigned size_class) {
  return std::clamp<std::size_t>(first_bytes / class_info(size_class).size, 1, first_objects);
}

// Misses between two scavenges after which a class gets a place. A block that is allocated and freed once misses twice;
// the more an idle object costs, the more often its class must have been wanted.
unsigned misses_for_a_place(unsigned size_class) {
  constexpr unsigned least = 3;
  constexpr std::size_t bytes_per_miss = 4 * kib;
  return least + static_cast<unsigned>(class_info(size_class).size / bytes_per_miss);
}
static_assert(3 + largest_class_size / (4 * kib) <= 255, "misses_ has eight bits");

}  // namespace

// What this cache may hold.
std::size_t thread_cache::share() const {
  const std::size_t limit = budget_->limit.load(std::memory_order_relaxed);
  const std::size_t caches = std::max<std::size_t>(budget_->caches.load(std::memory_order_relaxed), 1);
  // In proportion to the heap, so that many threads with little in use do not hold more than that.
  const std::size_t all = std::min(limit, std::max(central_->heap().in_use_bytes() / 2, least_for_all));
  return std::clamp(all / caches, std::min(least_per_thread, limit / caches), most_per_thread);
}

// Takes so many bytes of the budget, as long as no more than `of_limit` of it are taken.
bool thread_cache::pay(std::size_t bytes, std::size_t of_limit) {
  if (capacity_bytes_ + bytes > share()) return false;
  if (budget_->used.fetch_add(bytes, std::memory_order_relaxed) + bytes > of_limit) {
    budget_->used.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  capacity_bytes_ += bytes;
  return true;
}

// The class's magazines, two of them, may hold `most` objects each. False: the budget does not allow it.
bool thread_cache::raise_most(unsigned size_class, std::size_t most) {
  const std::size_t limit = budget_->limit.load(std::memory_order_relaxed);
  const std::size_t growth_limit = limit - limit / part_for_first_places;
  const std::size_t bytes = 2 * class_info(size_class).size * (most - most_[size_class]);
  if (!pay(bytes, most_[size_class] == 0 ? limit : growth_limit)) return false;
  most_[size_class] = static_cast<std::uint8_t>(most);
  return true;
}

void thread_cache::clear_most(unsigned size_class) {
  const std::size_t bytes = std::size_t{2} * class_info(size_class).size * most_[size_class];
  capacity_bytes_ -= bytes;
  budget_->used.fetch_sub(bytes, std::memory_order_relaxed);
  most_[size_class] = 0;
}

// After a miss in a class without a place. False: it gets none yet.
bool thread_cache::open(unsigned size_class) {
  std::uint8_t& misses = misses_[size_class];
  if (++misses < misses_for_a_place(size_class)) return false;
  misses = 0;
  return raise_most(size_class, first_most(size_class));
}

bool thread_cache::holds_its_bound() const {
  std::size_t capacity = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const magazine* const spare = spare_[c].load(std::memory_order_relaxed);
    const auto loaded = static_cast<std::size_t>(bins_[c].top - loaded_[c]->bottom());
    const auto room = static_cast<std::size_t>(bins_[c].limit - loaded_[c]->bottom());
    if (std::max(loaded, room) > most_[c] || (spare != nullptr && spare->count > most_[c])) return false;
    capacity += std::size_t{2} * most_[c] * class_info(c).size;
  }
  return capacity == capacity_bytes_;
}

}  // namespace tarn
