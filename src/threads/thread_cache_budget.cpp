// SPDX-License-Identifier: MIT
// The part of thread_cache that works with cache_budget: how much a cache may hold, and how capacity is paid for.
//
// Thread safety: called by the cache's own thread; the shared budget is changed by atomic operations. Invariants:
// thread_cache.hpp.
#include <algorithm>

#include "threads/thread_cache.hpp"

namespace tarn {
namespace {

// All magazines together stop growing at half the bytes of the heap in use, but not below least_for_all. Each thread's
// share of that is within the two bounds below; a thread that is alone gets least_for_all.
constexpr std::size_t least_for_all = 8 * mib;
constexpr std::size_t most_per_thread = 4 * mib;
constexpr std::size_t least_per_thread = 64 * kib;

// Misses between two scavenges after which a class gets its first capacity. A block that is allocated and freed once
// causes two. Larger classes need more: an idle object of theirs costs more.
unsigned misses_before_opening(unsigned size_class) {
  constexpr unsigned least = 3;
  constexpr std::size_t bytes_per_miss = 4 * kib;
  return least + static_cast<unsigned>(size_classes::most_block_bytes(size_class) / bytes_per_miss);
}
static_assert(3 + largest_class_size / (4 * kib) <= 255, "misses_ has eight bits");

}  // namespace

// The bytes that this cache may hold.
std::size_t thread_cache::budget_share() const {
  const std::size_t limit = budget_->most();
  const std::size_t caches = std::max<std::size_t>(budget_->caches.load(std::memory_order_relaxed), 1);
  // In proportion to the heap, so that many threads in a small heap do not hold more than the heap.
  const std::size_t all = std::min(limit, std::max(central_->heap().in_use_bytes() / 2, least_for_all));
  return std::clamp(all / caches, std::min(least_per_thread, limit / caches),
                    caches == 1 ? least_for_all : most_per_thread);
}

// Raises the capacity of each of the class's two magazines to `most` objects. False: the budget does not allow it.
bool thread_cache::raise_most(unsigned size_class, std::size_t most) {
  const std::size_t bytes = 2 * size_classes::most_block_bytes(size_class) * (most - most_[size_class]);
  if (capacity_bytes_ + bytes > budget_share() || !budget_->pay(bytes, most_[size_class] == 0)) return false;
  capacity_bytes_ += bytes;
  most_[size_class] = static_cast<std::uint8_t>(most);
  return true;
}

void thread_cache::lower_most(unsigned size_class, std::size_t most) {
  const std::size_t bytes = 2 * size_classes::most_block_bytes(size_class) * (most_[size_class] - most);
  capacity_bytes_ -= bytes;
  budget_->refund(bytes);
  most_[size_class] = static_cast<std::uint8_t>(most);
}

// Counts a miss in a class without a magazine, and gives it its first capacity after enough of them. False: not yet.
bool thread_cache::open(unsigned size_class) {
  std::uint8_t& misses = misses_[size_class];
  if (++misses < misses_before_opening(size_class)) return false;
  misses = 0;
  return raise_most(size_class, first_capacity(size_class));
}

void thread_cache::validate_class(unsigned size_class) {
  const bin& b = bins_[size_class];
  const magazine* const m = loaded_[size_class];
  const std::size_t most = most_[size_class];
  const auto room = static_cast<std::size_t>(b.limit - (m->slots + 1));
  TARN_INVARIANT("thread_cache", this, b.samples.value() <= class_countdown::longest_step);
  TARN_INVARIANT("thread_cache", this, m->slots < b.top && b.top <= b.limit);
  TARN_INVARIANT("thread_cache", this, room <= most && room <= m->capacity);
  TARN_INVARIANT("thread_cache", this, m->slots[0] == nullptr);
  for (void* const* slot = m->slots + 1; slot != b.top; ++slot) {
    const bool is_hole = slot < m->slots + 1 + holes_[size_class];
    const bool is_sound =
        is_hole ? *slot == nullptr : hardened_build || free_mark::is_set(central_->map(), size_class, *slot);
    TARN_INVARIANT("thread_cache", this, is_sound);
  }
  // Taken out while it is checked, so that no other thread takes it.
  magazine* const spare = spare_[size_class].take();
  if (spare != nullptr) spare->validate();
  TARN_INVARIANT("thread_cache", this, spare == nullptr || spare->count <= most);
  spare_[size_class].put(spare);
}

void thread_cache::validate() {
  std::size_t capacity = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    validate_class(c);
    capacity += 2 * most_[c] * size_classes::most_block_bytes(c);
  }
  TARN_INVARIANT("thread_cache", this, capacity_bytes_ == capacity);
  TARN_INVARIANT("thread_cache", this, capacity <= budget_->used.load(std::memory_order_relaxed));
  quarantine_.validate();
}

}  // namespace tarn
