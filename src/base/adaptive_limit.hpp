// SPDX-License-Identifier: MIT
// adaptive_limit: how many items a stock may keep beyond a fixed limit. Items that were given up and had to be made
// anew show that a higher limit would have saved both, and raise it by their number. Items that nobody needed for a
// period of decay lower it by theirs.
//
// Thread safety: any thread may call any member. Concurrent calls may lose a change: the limit is a matter of speed
// only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/compiler.hpp"

namespace tarn {

class adaptive_limit {
 public:
  [[nodiscard]] std::uint32_t extra() const { return extra_.load(std::memory_order_relaxed); }

  void note_given_up(std::uint32_t items) {
    given_up_.store(given_up_.load(std::memory_order_relaxed) + items, std::memory_order_relaxed);
  }
  // Items have been made. True: they raised the limit, which stays at most `most`. Less than `evidence` items, given up in
  // this period or kept because of the limit, do not raise it. Those that were made anew meanwhile count: a producer may
  // take at once what a consumer gives up, so that few are missing at any moment.
  bool note_made(std::uint32_t items, std::uint32_t most, std::uint32_t evidence = 1) {
    const std::uint32_t given_up = given_up_.load(std::memory_order_relaxed);
    if (TARN_LIKELY(given_up == 0)) return false;
    const std::uint32_t again = std::min(items, given_up);
    given_up_.store(given_up - again, std::memory_order_relaxed);
    const std::uint32_t made_again = made_again_.load(std::memory_order_relaxed);
    made_again_.store(made_again + again, std::memory_order_relaxed);
    const std::uint32_t now = extra();
    if (now >= most || std::uint64_t{given_up} + made_again + now < evidence) return false;
    extra_.store(std::min(now + again, most), std::memory_order_relaxed);
    return true;
  }
  // Ends a period in which nobody needed `idle` of the items kept.
  void end_period(std::uint32_t idle) {
    const std::uint32_t now = extra();
    given_up_.store(0, std::memory_order_relaxed);
    made_again_.store(0, std::memory_order_relaxed);
    extra_.store(now - std::min(now, idle), std::memory_order_relaxed);
  }
  void clear() {
    given_up_.store(0, std::memory_order_relaxed);
    made_again_.store(0, std::memory_order_relaxed);
    extra_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> extra_{0};
  std::atomic<std::uint32_t> given_up_{0};    // and not made anew yet, in this period
  std::atomic<std::uint32_t> made_again_{0};  // of those given up, in this period
};

}  // namespace tarn
