// SPDX-License-Identifier: MIT
// buffer_budget: how many bytes each buffer pool may keep idle. Follows the memory that the process may use, and
// shrinks under memory pressure.
//
// Without a budget of its own a pool keeps up to an eighth of the limit (background/pressure.hpp); with one, that
// budget, but at most half of the limit. While memory is tight the result is halved once a second, down to 0; above the
// soft limit it is 0 at once. After some seconds without pressure it is doubled once a second, up to its full value.
//
// Thread safety: any thread. Invariants: 0 <= halvings <= most_halvings; 0 <= calm <= calm_looks; at most_halvings
// nothing may be kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "background/pressure.hpp"
#include "os/invariant.hpp"

namespace tarn {

class buffer_budget {
 public:
  static constexpr unsigned most_halvings = 8;
  static constexpr int calm_looks = 5;

  constexpr buffer_budget() = default;

  // Takes the watch's last look into account, once.
  void refresh(pressure::watch& watch, std::int64_t now_ms) {
    const std::uint32_t look = watch.look(now_ms);
    std::uint32_t noted = noted_.load(std::memory_order_relaxed);
    if (noted == look || !noted_.compare_exchange_strong(noted, look, std::memory_order_relaxed)) return;
    note(watch.least_limit(), watch.now());
  }

  // Takes the result of one look into account.
  void note(std::uint64_t limit, pressure::level level) {
    limit_.store(limit, std::memory_order_relaxed);
    unsigned halvings = halvings_.load(std::memory_order_relaxed);
    int calm = calm_.load(std::memory_order_relaxed);
    if (level != pressure::level::calm) {
      calm = 0;
      if (halvings < most_halvings) ++halvings;
      if (level == pressure::level::above_soft) halvings = most_halvings;
    } else if (calm < calm_looks) {
      ++calm;
    } else if (halvings > 0) {
      --halvings;
    }
    calm_.store(calm, std::memory_order_relaxed);
    halvings_.store(halvings, std::memory_order_relaxed);
    if (os::is_check_due()) validate();
  }
  void validate() const {
    const unsigned halvings = halvings_.load(std::memory_order_relaxed);
    const int calm = calm_.load(std::memory_order_relaxed);
    TARN_INVARIANT("buffer_budget", this, halvings <= most_halvings);
    TARN_INVARIANT("buffer_budget", this, 0 <= calm && calm <= calm_looks);
  }

  // The bytes that a pool with the budget `asked` may keep; `asked` 0: the pool has no budget of its own.
  [[nodiscard]] std::size_t of(std::size_t asked) const {
    const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
    const unsigned halvings = halvings_.load(std::memory_order_relaxed);
    if (halvings == most_halvings) return 0;
    const std::uint64_t most = asked == 0 ? limit / 8 : limit / 2;
    return static_cast<std::size_t>(asked == 0 || asked > most ? most : asked) >> halvings;
  }

 private:
  friend class buffer_budget_test_access;

  std::atomic<std::uint32_t> noted_{0};  // the number of the last look taken into account
  std::atomic<std::uint64_t> limit_{~std::uint64_t{0}};
  std::atomic<unsigned> halvings_{0};
  std::atomic<int> calm_{0};
};

}  // namespace tarn
