// SPDX-License-Identifier: MIT
// Threads begin, enter and end scopes with budgets, hand blocks to one another and free them in, out of and after their
// scopes. Each block is checked for damage before it is freed; what the reports say is compared with what lives.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "fronts/scopes/scope_core.hpp"
#include "rounds.hpp"
#include "stamped_block.hpp"
#include "tarn/scope.hpp"

namespace tarn {
namespace {

using testing_support::in_threads;
using testing_support::rounds;
using testing_support::stamped_block;

class scopes_stress : public testing::Test {
 protected:
  void drop(const stamped_block& b) {
    if (!b.intact()) damaged_.fetch_add(1);
    tarn_free(b.bytes);
  }
  bool make(std::mt19937& random, stamped_block& b) {
    const auto kind = random() % 1000;
    b.size = kind < 900 ? random() % 600 : kind < 997 ? random() % 20000 : random() % 400000;
    b.number = number_.fetch_add(1, std::memory_order_relaxed);
    b.bytes = static_cast<unsigned char*>(kind % 7 == 0 ? tarn_calloc(1, b.size) : tarn_malloc(b.size));
    if (b.bytes == nullptr) return false;
    b.stamp();
    return true;
  }

  // One scope: most blocks are freed by this thread, some handed to others, some outlive it.
  void run_scope(std::mt19937& random, int steps) {
    scope s("stress", {.limit = 4 * mib, .keep = random() % 2 == 0 ? 0U : 1U << 20});
    std::vector<stamped_block> mine;
    std::size_t handed = 0;
    {
      const scope_entry in = s.enter();
      for (int i = 0; i < steps; ++i) {
        const auto what = random() % 16;
        stamped_block b;
        if (what < 8 || mine.empty()) {
          if (make(random, b)) mine.push_back(b);
          if (b.bytes == nullptr) failed_.fetch_add(1);
        } else if (what < 13) {
          std::swap(mine[random() % mine.size()], mine.back());
          drop(mine.back());
          mine.pop_back();
        } else if (what < 15) {
          queue_.put(mine.back());
          mine.pop_back();
          ++handed;
        } else if (queue_.take(b)) {
          drop(b);
        }
      }
      if (s.stats().charged > 4 * mib) damaged_.fetch_add(1);
    }
    while (mine.size() > 5) {
      drop(mine.back());
      mine.pop_back();
    }
    const scope_report report = s.end();
    if (report.blocks < mine.size() || report.blocks > mine.size() + handed) damaged_.fetch_add(1);
    for (const stamped_block& b : mine) queue_.put(b);
  }

  void finish() {
    stamped_block b;
    while (queue_.take(b)) drop(b);
    EXPECT_EQ(damaged_.load(), 0) << "blocks damaged, budgets exceeded, or survivors not reported";
    const arena_bytes left = process_scope.bytes();
    EXPECT_EQ(left.small + left.large, 0U);
    EXPECT_EQ(process_scope.charged(), left.spans);
    engine::heap.validate();
    os::lock_guard guard(process_scope.lock());
    process_scope.validate_locked();
  }

  testing_support::block_queue queue_;
  std::atomic<std::uint64_t> number_{1};
  std::atomic<int> damaged_{0};
  std::atomic<int> failed_{0};
};

TEST_F(scopes_stress, scopes_of_four_threads_in_turn) {
  in_threads(4, [this](unsigned t) {
    std::mt19937 random(t);
    for (int i = 0; i < rounds(60); ++i) run_scope(random, 4000);
  });
  finish();
}

TEST_F(scopes_stress, one_scope_for_several_threads) {
  for (int round = 0; round < rounds(10); ++round) {
    scope s("shared", {.limit = 8 * mib});
    std::atomic<std::size_t> live{0};
    std::vector<std::vector<stamped_block>> left(4);
    in_threads(4, [&](unsigned t) {
      std::mt19937 random(t + static_cast<unsigned>(round) * 4);
      for (int i = 0; i < 300; ++i) {
        const scope_entry in = enter(s.handle());
        for (int k = 0; k < 30; ++k) {
          stamped_block b;
          if (make(random, b)) left[t].push_back(b);
          while (left[t].size() > 200) {
            std::swap(left[t][random() % 200], left[t].back());
            drop(left[t].back());
            left[t].pop_back();
          }
        }
      }
      live.fetch_add(left[t].size());
    });
    EXPECT_EQ(s.end().blocks, live.load());
    in_threads(4, [&](unsigned t) {
      for (const stamped_block& b : left[(t + 1) % 4]) drop(b);
    });
  }
  finish();
}

TEST_F(scopes_stress, blocks_are_freed_while_their_checked_scope_ends) {
  for (int round = 0; round < rounds(100); ++round) {
    scope around("around");
    scope s("checked", {.checked = true, .parent = around.handle()});
    std::mt19937 random(static_cast<unsigned>(round));
    std::vector<stamped_block> blocks(10000);
    {
      const scope_entry in = s.enter();
      for (stamped_block& b : blocks) {
        while (!make(random, b)) {
        }
      }
    }
    // The other thread is somewhere among them when the scope ends, or has not begun.
    const std::size_t passed = random() % blocks.size();
    std::atomic<std::size_t> freed{0};
    std::thread other([&] {
      // In every other round it frees them into its bin of the scope that they are left to.
      std::optional<scope_entry> in;
      if (round % 2 == 0) in.emplace(around.handle());
      for (const stamped_block& b : blocks) {
        if (tarn_usable_size(b.bytes) < b.size) damaged_.fetch_add(1);
        tarn_free(b.bytes);
        freed.store(freed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      }
    });
    while (freed.load(std::memory_order_relaxed) < passed) {
    }
    s.end();
    other.join();
  }
  finish();
}

}  // namespace
}  // namespace tarn
