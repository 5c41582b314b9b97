// SPDX-License-Identifier: MIT
// Many threads allocate, resize and free blocks with malloc, calloc, aligned_alloc and realloc, and hand blocks to one
// another through a queue. Each block is checked for damage before it is freed, and the page heap at the end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../child_status.hpp"
#include "base/units.hpp"
#include "engine/engine.hpp"
#include "rounds.hpp"
#include "stamped_block.hpp"

namespace tarn {
namespace {

using testing_support::in_threads;
using testing_support::rounds;
using testing_support::stamped_block;

std::atomic<std::uint64_t> next_number{1};
std::atomic<int> damaged{0};

std::size_t random_size(std::mt19937& random) {
  const auto kind = random() % 100;
  if (kind < 70) return random() % 300;
  if (kind < 95) return random() % 8000;
  if (kind < 99) return random() % 300000;
  return random() % (3 * mib);
}

bool all_zero(const unsigned char* bytes, std::size_t size) {
  return std::all_of(bytes, bytes + size, [](unsigned char c) { return c == 0; });
}

// Whether a live block has the mark of a free one, which would be an error.
bool is_marked(const void* block) {
  const std::size_t size_class = engine::map.class_of(address_of(block));
  return size_class != 0 && free_mark::is_set(engine::map, static_cast<unsigned>(size_class), block);
}

stamped_block make_block(std::mt19937& random) {
  stamped_block b{.size = random_size(random), .number = next_number.fetch_add(1, std::memory_order_relaxed)};
  const auto kind = random() % 8;
  if (kind == 0) {
    b.bytes = static_cast<unsigned char*>(tarn_calloc(1, b.size));
    if (!all_zero(b.bytes, std::min<std::size_t>(b.size, 4096))) damaged.fetch_add(1);
  } else if (kind == 1) {
    const std::size_t alignment = std::size_t{16} << (random() % 10);
    b.bytes = static_cast<unsigned char*>(tarn_aligned_alloc(alignment, b.size));
    if (address_of(b.bytes) % alignment != 0) damaged.fetch_add(1);
  } else {
    b.bytes = static_cast<unsigned char*>(tarn_malloc(b.size));
  }
  if (is_marked(b.bytes)) damaged.fetch_add(1);
  b.stamp();
  return b;
}

void change_size(stamped_block& b, std::mt19937& random) {
  if (!b.intact()) damaged.fetch_add(1);
  const std::size_t size = random_size(random) + 1;
  const unsigned char first = b.size != 0 ? b.bytes[0] : 0;
  auto* const bytes = static_cast<unsigned char*>(tarn_realloc(b.bytes, size));
  if (bytes == nullptr || (b.size != 0 && bytes[0] != first)) damaged.fetch_add(1);
  b.bytes = bytes;
  b.size = size;
  b.stamp();
}

void drop(const stamped_block& b) {
  if (!b.intact()) damaged.fetch_add(1);
  tarn_free(b.bytes);
}

class blocks_stress : public testing::Test {
 protected:
  ~blocks_stress() override {
    stamped_block b;
    while (queue_.take(b)) drop(b);
    EXPECT_EQ(damaged.exchange(0), 0) << "blocks damaged, misaligned, not zeroed or marked as free";
    tarn_trim(0);
    engine::heap.validate();
  }

  void churn(unsigned seed, int steps) {
    std::mt19937 random(seed);
    std::vector<stamped_block> mine;
    for (int i = 0; i < steps; ++i) {
      const auto what = random() % 16;
      if (mine.size() < 20 || (what < 7 && mine.size() < 400)) {
        mine.push_back(make_block(random));
        continue;
      }
      std::swap(mine[random() % mine.size()], mine.back());
      if (what < 9) {
        change_size(mine.back(), random);
        continue;
      }
      const stamped_block b = mine.back();
      mine.pop_back();
      if (what < 12) {
        drop(b);
      } else {
        queue_.put(b);
        stamped_block other;
        if (what < 15 && queue_.take(other)) drop(other);
      }
    }
    for (const stamped_block& b : mine) drop(b);
  }

  testing_support::block_queue queue_;
};

TEST_F(blocks_stress, all_operations_and_hand_over) {
  in_threads(6, [this](unsigned t) { churn(t, rounds(250000)); });
}

TEST_F(blocks_stress, threads_that_end_while_others_free_their_blocks) {
  for (int generation = 0; generation < rounds(60); ++generation) {
    in_threads(6,
               [this, generation](unsigned t) { churn(100U * t + static_cast<unsigned>(generation), 1500); });
  }
}

TEST_F(blocks_stress, producers_and_consumers) {
  std::atomic<int> producing{3};
  in_threads(6, [this, &producing](unsigned t) {
    if (t < 3) {
      std::mt19937 random(t);
      for (int i = 0; i < rounds(120000); ++i) queue_.put(make_block(random));
      producing.fetch_sub(1);
      return;
    }
    stamped_block b;
    for (;;) {
      const bool last = producing.load() == 0;
      bool any = false;
      while (queue_.take(b)) {
        drop(b);
        any = true;
      }
      if (last && !any) return;
      std::this_thread::yield();
    }
  });
}

TEST_F(blocks_stress, with_trim_and_statistics_all_the_time) {
  std::atomic<int> working{4};
  in_threads(5, [this, &working](unsigned t) {
    if (t < 4) {
      churn(t + 50, rounds(120000));
      working.fetch_sub(1);
      return;
    }
    tarn_stats stats{};
    while (working.load() != 0) {
      tarn_trim(stats.version == 2 ? 0 : mib);
      tarn_get_stats(&stats);
      engine::heap.validate();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
}

// Most of many small blocks are freed in random order, again and again with other sizes, while the idle pages between the
// others go back: the others are resized and freed in unlisted spans, and their spans are divided into grains.
TEST_F(blocks_stress, sparse_spans_whose_pages_go_back) {
  std::atomic<int> working{3};
  in_threads(4, [this, &working](unsigned t) {
    if (t == 3) {
      while (working.load() != 0) {
        engine::central_tier.purge_idle_pages(true);
        engine::central_tier.flush_idle_magazines(true);
        std::this_thread::yield();
      }
      return;
    }
    std::mt19937 random(t);
    for (int round = 0; round < rounds(40); ++round) {
      const std::size_t largest = std::size_t{64} << (random() % 5);
      std::vector<stamped_block> mine(6000);
      for (stamped_block& b : mine) {
        b.size = 1 + random() % largest;
        b.number = next_number.fetch_add(1, std::memory_order_relaxed);
        b.bytes = static_cast<unsigned char*>(tarn_malloc(b.size));
        if (is_marked(b.bytes)) damaged.fetch_add(1);
        b.stamp();
      }
      std::shuffle(mine.begin(), mine.end(), random);
      for (; mine.size() > 700; mine.pop_back()) drop(mine.back());
      for (stamped_block& b : mine) {
        if (tarn_usable_size(b.bytes) < b.size) damaged.fetch_add(1);
        if (random() % 4 == 0) change_size(b, random);
        if (random() % 8 == 0) queue_.put(std::exchange(b, make_block(random)));
        stamped_block other;
        if (random() % 8 == 0 && queue_.take(other)) drop(other);
      }
      for (const stamped_block& b : mine) drop(b);
    }
    working.fetch_sub(1);
  });
  if (os::is_check_due()) engine::central_tier.depots().validate();
}

TEST_F(blocks_stress, with_fork_all_the_time) {
  std::atomic<int> working{3};
  in_threads(4, [this, &working](unsigned t) {
    if (t < 3) {
      churn(t + 70, rounds(30000));
      working.fetch_sub(1);
      return;
    }
    int children = 0;
    while (working.load() != 0 && children < 50) {
      const auto works = [] {
        damaged = 0;
        std::mt19937 random(1);
        for (int i = 0; i < 300; ++i) drop(make_block(random));
        engine::heap.validate();
        return damaged.load() == 0 ? 0 : 1;
      };
      EXPECT_EQ(testing_support::child_status(works), 0) << "child " << children;
      ++children;
    }
    EXPECT_GT(children, 0);
  });
}

TEST_F(blocks_stress, with_quick_decay) {
  ASSERT_EQ(tarn_set_option("decay_ms", "20"), 0);
  in_threads(4, [this](unsigned t) {
    for (int i = 0; i < 8; ++i) {
      churn(t + 90, rounds(5000));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  ASSERT_EQ(tarn_set_option("decay_ms", "1000"), 0);
}

}  // namespace
}  // namespace tarn
