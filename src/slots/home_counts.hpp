// SPDX-License-Identifier: MIT
// home_counts: how many threads each home has, and on which memory node they run. A thread has one home, whose number says
// which depots it uses (class_depots.hpp).
//
// Thread safety: enter() and leave() under the registry's lock; the others by any thread, with the answer of a moment.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/node.hpp"

namespace tarn {

class home_counts {
 public:
  static constexpr unsigned most = 16;
  static constexpr unsigned none = most;

  // The home for another thread, which runs on this memory node: one without threads, or the one with the fewest threads
  // of the node (os::place_cost()).
  std::uint8_t enter(unsigned node = os::unknown_node) {
    const auto cost = [this, node](unsigned home) {
      return os::place_cost(threads_[home].load(std::memory_order_relaxed), node_of(home), node);
    };
    unsigned best = 0;
    for (unsigned home = 1; home < most; ++home) {
      if (cost(home) < cost(best)) best = home;
    }
    if (!is_used(best)) nodes_[best].store(static_cast<std::uint8_t>(node), std::memory_order_relaxed);
    threads_[best].fetch_add(1, std::memory_order_relaxed);
    return static_cast<std::uint8_t>(best);
  }
  void leave(std::uint8_t home) { threads_[home].fetch_sub(1, std::memory_order_relaxed); }
  // In a forked child.
  void forget() {
    for (auto& threads : threads_) threads.store(0, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_used(unsigned home) const {
    return threads_[home].load(std::memory_order_relaxed) != 0;
  }
  // Meaningless while the home has had no thread.
  [[nodiscard]] unsigned node_of(unsigned home) const { return nodes_[home].load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint16_t> threads_[most] = {};
  std::atomic<std::uint8_t> nodes_[most] = {};
};

}  // namespace tarn
