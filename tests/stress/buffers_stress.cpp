// SPDX-License-Identifier: MIT
// Buffer pools used by several threads. Each thread writes a number all over a buffer that it gets; the thread that
// gives the buffer back checks the number. This shows memory handed out twice and writes by the pool. Compiled a second
// time with checked pools.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "rounds.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/malloc.h"
#include "tarn/process.hpp"

namespace tarn {
namespace {

using testing_support::in_threads;
using testing_support::rounds;

constexpr unsigned threads = 4;
constexpr std::size_t stride = 4096;

// Writes the number to the first word of each 4 KiB and to the last word.
void stamp(const buffer& b, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= b.capacity(); at += stride)
    std::memcpy(b.data() + at, &number, sizeof number);
  std::memcpy(b.data() + b.capacity() - sizeof number, &number, sizeof number);
}
bool is_stamped(const buffer& b) {
  std::uint64_t number = 0;
  std::uint64_t each = 0;
  std::memcpy(&number, b.data(), sizeof number);
  for (std::size_t at = 0; at + sizeof each <= b.capacity(); at += stride) {
    std::memcpy(&each, b.data() + at, sizeof each);
    if (each != number) return false;
  }
  std::memcpy(&each, b.data() + b.capacity() - sizeof each, sizeof each);
  return each == number;
}
bool is_zero(const buffer& b) {
  return std::all_of(b.data(), b.data() + b.size(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::size_t some_size(std::mt19937_64& random) {
  return std::size_t{1} << (10 + random() % 13) | (random() % (std::size_t{1} << 20));
}

// Each thread keeps up to 8 buffers; one in four goes to another thread, through slots that all threads share.
template <class Pool>
void churn(Pool& pool, int steps, bool zeroed) {
  std::vector<std::vector<buffer>> left(threads);
  std::atomic<int> damaged{0};
  std::vector<std::atomic<buffer*>> shared(16);
  in_threads(threads, [&](unsigned index) {
    std::mt19937_64 random(index);
    std::vector<buffer>& mine = left[index];
    std::uint64_t number = std::uint64_t{index} << 48;
    for (int i = 0; i < steps; ++i) {
      if (mine.size() < 8 && random() % 2 == 0) {
        buffer b = pool.get(some_size(random));
        if (zeroed && !is_zero(b)) ++damaged;
        stamp(b, ++number);
        mine.push_back(std::move(b));
      } else if (!mine.empty()) {
        std::swap(mine[random() % mine.size()], mine.back());
        buffer b = std::move(mine.back());
        mine.pop_back();
        if (random() % 4 == 0) {
          auto* const other =
              shared[random() % shared.size()].exchange(new buffer(std::move(b)), std::memory_order_acq_rel);
          if (other == nullptr) continue;
          b = std::move(*other);
          delete other;
        }
        if (!is_stamped(b)) ++damaged;
      }
    }
  });
  for (auto& slot : shared) {
    buffer* const b = slot.load(std::memory_order_relaxed);
    if (b != nullptr && !is_stamped(*b)) ++damaged;
    delete b;
  }
  for (std::vector<buffer>& each : left) {
    for (const buffer& b : each) {
      if (!is_stamped(b)) ++damaged;
    }
    each.clear();
  }
  EXPECT_EQ(damaged.load(), 0);
  EXPECT_EQ(pool.stats().live, 0U);
  EXPECT_LE(pool.stats().kept_bytes, pool.stats().limit);
}

class buffers_stress : public testing::Test {
 protected:
  ~buffers_stress() override {
    tarn_trim(0);
    engine::heap.validate();
  }
};

TEST_F(buffers_stress, ordinary) {
  buffer_pool pool;
  churn(pool, rounds(4000), false);
}

TEST_F(buffers_stress, little_budget_and_time) {
  tarn_set_option("decay_ms", "20");
  buffer_pool pool({.limit = 8 * mib, .idle_time = std::chrono::milliseconds(10)});
  churn(pool, rounds(4000), false);
  tarn_set_option("decay_ms", "1000");
}

TEST_F(buffers_stress, zeroed_and_ahead) {
  buffer_pool pool({.zeroed = true, .prefault = buffer_prefault::ahead, .ahead = 2, .limit = 64 * mib});
  churn(pool, rounds(1000), true);
}

TEST_F(buffers_stress, aligned_huge) {
  buffer_pool pool({.alignment = 2 * mib, .huge_pages = buffer_huge_pages::always, .limit = 64 * mib});
  churn(pool, rounds(1000), false);
}

TEST_F(buffers_stress, trimmed_and_looked_at_meanwhile) {
  buffer_pool pool({.limit = 32 * mib});
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done.load(std::memory_order_relaxed)) {
      tarn::trim();
      pool.trim();
      for (const named_buffer_pool_stats& each : tarn::buffer_pools())
        EXPECT_GE(each.stats.gets, each.stats.hits);
      std::this_thread::yield();
    }
  });
  churn(pool, rounds(2000), false);
  done.store(true, std::memory_order_relaxed);
  other.join();
}

// Another thread uses malloc at the same time, whose memory comes from the same page heap.
TEST_F(buffers_stress, beside_malloc) {
  buffer_pool pool({.limit = 32 * mib});
  std::atomic<bool> done{false};
  std::thread other([&] {
    std::mt19937_64 random(99);
    while (!done.load(std::memory_order_relaxed)) {
      const std::size_t size = some_size(random);
      auto* const block = static_cast<unsigned char*>(tarn_malloc(size));
      block[0] = block[size - 1] = 77;
      std::this_thread::yield();
      EXPECT_EQ(block[0], 77);
      EXPECT_EQ(block[size - 1], 77);
      tarn_free(block);
    }
  });
  churn(pool, rounds(2000), false);
  done.store(true, std::memory_order_relaxed);
  other.join();
}

// In every second round the pool is destroyed while another thread gives its buffers back. The background thread works
// on the pools at the same time.
TEST_F(buffers_stress, pools_come_and_go) {
  tarn_set_option("decay_ms", "20");
  for (int round = 0; round < rounds(200); ++round) {
    std::optional<buffer_pool> pool(
        std::in_place, buffer_pool_options{.prefault = buffer_prefault::ahead, .limit = 2 * mib});
    std::vector<buffer> all;
    for (int i = 0; i < 8; ++i) all.push_back(pool->get(100000 + 50000 * static_cast<std::size_t>(i)));
    for (const buffer& b : all) stamp(b, static_cast<std::uint64_t>(round));
    std::thread giver([mine = std::move(all)]() mutable {
      for (buffer& b : mine) {
        EXPECT_TRUE(is_stamped(b));
        b.reset();
      }
    });
    if (round % 2 == 0) giver.join();
    pool.reset();
    if (giver.joinable()) giver.join();
  }
  tarn_set_option("decay_ms", "1000");
}

TEST_F(buffers_stress, vectors) {
  in_threads(threads, [](unsigned index) {
    std::mt19937_64 random(index);
    std::vector<std::uint32_t, buffer_allocator<std::uint32_t>> v;
    for (int i = 0; i < rounds(300); ++i) {
      const std::size_t before = v.size();
      v.resize(random() % 1000000, index);
      for (std::size_t at = before; at < v.size(); at += 1000) ASSERT_EQ(v[at], index);
      if (!v.empty()) {
        ASSERT_EQ(v.back(), index);
      }
      if (random() % 4 == 0) v.shrink_to_fit();
    }
  });
}

}  // namespace
}  // namespace tarn
