// SPDX-License-Identifier: MIT
// cache_budget: how many bytes the caches of threads and processors together may hold, and how many they have been
// granted. Capacity is paid for before it exists.
//
// Thread safety: any thread. Invariant: used == sum of the capacities of all caches, except that while a thread pays it
// exceeds the sum for a moment, and may exceed the limit. Under memory pressure the limit is a part of the option's
// (most()); capacity that exceeds it then goes as the caches become idle.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "slots/size_class.hpp"

namespace tarn {

struct cache_budget {
  // From this many granted bytes on, decay looks for caches that have become idle.
  static constexpr std::size_t watch_bytes = 2 * mib;
  // Slow calls of a cache between two checks of that. Decay is woken then: objects that stay in caches free no span, so
  // nothing else may wake it.
  static constexpr std::uint32_t watch_interval = 64;
  // The fraction that is reserved for the first capacity of classes, so that early threads do not leave later threads
  // without any.
  static constexpr std::size_t part_for_first_capacity = 4;

  std::atomic<std::size_t> limit{64 * mib};
  std::atomic<unsigned> halvings{0};  // set by background/pressure.cpp
  std::atomic<std::size_t> caches{0};
  // Hardened build: two caches have existed at the same time. Before that, no second thread can free.
  std::atomic<bool> has_had_several{false};
  alignas(separation) std::atomic<std::size_t> used{0};

  // Pays for more capacity of a class; `first`: it has none yet. False: refused.
  bool pay(std::size_t bytes, bool first) {
    const std::size_t all = most();
    const std::size_t most = first ? all : all - all / part_for_first_capacity;
    if (used.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most) return true;
    refund(bytes);
    return false;
  }
  [[nodiscard]] std::size_t most() const {
    return limit.load(std::memory_order_relaxed) >> halvings.load(std::memory_order_relaxed);
  }
  void refund(std::size_t bytes) { used.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] bool is_worth_watching() const { return used.load(std::memory_order_relaxed) >= watch_bytes; }
};

// The first capacity of a class, in objects.
inline std::size_t first_capacity(unsigned size_class) {
  constexpr std::size_t first_bytes = 4 * kib;
  constexpr std::size_t first_objects = 12;
  const std::size_t bytes = std::max<std::size_t>(size_classes::most_block_bytes(size_class), 1);
  return std::clamp<std::size_t>(first_bytes / bytes, 1, first_objects);
}

}  // namespace tarn
