// SPDX-License-Identifier: MIT
#include "malloc/hardened_large_quarantine.hpp"

#include <atomic>
#include <cstdint>

#include "base/units.hpp"
#include "slots/hardened_shuffle.hpp"
#include "slots/size_class.hpp"

namespace tarn::hardened_large_quarantine {
namespace {

// A block goes through a ring, then through a random entry:
//
//     freed --> queue[next % Length] --oldest--> pool[random % Length] --> handed back to the caller
template <std::size_t Length>
struct store {
  static_assert(is_power_of_two(Length));
  alignas(separation) std::atomic<std::uint32_t> next{0};
  alignas(separation) std::atomic<void*> queue[Length] = {};
  std::atomic<void*> pool[Length] = {};

  void* exchange(void* block) {
    // acq_rel, here and below: partner of the same exchange in other threads; the thread that takes a block out sees
    // the zeroes that were written before it was put in.
    void* const oldest = queue[next.fetch_add(1, std::memory_order_relaxed) % Length].exchange(
        block, std::memory_order_acq_rel);
    if (oldest == nullptr) return nullptr;
    return pool[random_number() % Length].exchange(oldest, std::memory_order_acq_rel);
  }

  void take_all(void (*visit)(void* block)) {
    const auto take = [visit](std::atomic<void*>& entry) {
      if (void* const block = entry.exchange(nullptr, std::memory_order_acq_rel)) visit(block);
    };
    for (std::atomic<void*>& entry : queue) take(entry);
    for (std::atomic<void*>& entry : pool) take(entry);
  }
};

constexpr std::size_t most_medium = 16 * kib;
constexpr std::size_t most_bytes = 4 * mib;  // in each store
store<most_bytes / 2 / most_medium> medium_blocks;
store<most_bytes / 2 / largest_class_size> large_objects;

}  // namespace

void* exchange(void* block, std::size_t size) {
  if (size <= most_medium) return medium_blocks.exchange(block);
  return large_objects.exchange(block);
}

void take_all(void (*visit)(void* block)) {
  medium_blocks.take_all(visit);
  large_objects.take_all(visit);
}

}  // namespace tarn::hardened_large_quarantine
