// SPDX-License-Identifier: MIT
// The pools that serve a plan's groups: which blocks are theirs, how long these are, and forks while other threads
// allocate.
#include "profiler/apply/apply_pools.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "../../child_status.hpp"
#include "base/units.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/malloc.h"
#include "tests/profiler/apply/plan.hpp"

namespace tarn::profiler {
namespace {

constexpr std::size_t slots_of_64 = 0;
constexpr std::size_t slots_of_100 = 2;
constexpr std::size_t others_of_64 = 3;
constexpr std::size_t buffers = 5;
constexpr std::size_t slots_of_all_memory = 6;
constexpr std::size_t last_group = most_apply_groups - 1;

class apply_pools_test : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const loaded_plan plan(
        "pool 0 64 n61:0\npool 2 100 n61:0\npool 3 64 n61:0\nbuffers 5 0 n61:0\n"
        "pool 6 1099511627776 n61:0\npool 31 16 n61:0\n");
    ASSERT_TRUE(plan.good);
    apply_pools::open(*plan.sites);
  }
};

TEST_F(apply_pools_test, a_block_has_the_length_of_its_groups_slots) {
  for (const auto& [group, length] : {std::pair{slots_of_64, 64U}, {slots_of_100, 112U}, {last_group, 16U}}) {
    void* const block = apply_pools::take(group, 1);
    ASSERT_NE(block, nullptr) << group;
    EXPECT_EQ(apply_pools::capacity_of(block), length);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0U);
    std::memset(block, 1, length);
    EXPECT_TRUE(apply_pools::give(block));
    EXPECT_EQ(apply_pools::take(group, length + 1), nullptr);
  }
}

TEST_F(apply_pools_test, groups_of_one_size_have_pools_of_their_own) {
  void* const first = apply_pools::take(slots_of_64, 64);
  EXPECT_TRUE(apply_pools::give(first));
  void* const second = apply_pools::take(others_of_64, 64);
  EXPECT_NE(first, second);
  EXPECT_TRUE(apply_pools::give(second));
  EXPECT_EQ(apply_pools::take(slots_of_64, 64), first) << "the last block freed is the first given";
  EXPECT_TRUE(apply_pools::give(first));
}

TEST_F(apply_pools_test, a_group_without_a_pool_has_no_blocks) {
  for (const std::size_t group : {std::size_t{1}, std::size_t{30}, slots_of_all_memory}) {
    EXPECT_EQ(apply_pools::take(group, 16), nullptr) << group;
    EXPECT_EQ(apply_pools::taken(group), 0U);
  }
}

TEST_F(apply_pools_test, blocks_of_others_are_left_alone) {
  int local = 0;
  std::vector<void*> others = {nullptr, &local, tarn_malloc(64), tarn_memalign(8192, 100), tarn_malloc(mib)};
  buffer_pool own;
  buffer of_the_program = own.get(mib);
  others.push_back(of_the_program.data());
  for (void* const block : others) {
    EXPECT_EQ(apply_pools::capacity_of(block), 0U) << block;
    EXPECT_FALSE(apply_pools::give(block)) << block;
  }
  for (const std::size_t index : {2U, 3U, 4U}) tarn_free(others[index]);
}

TEST_F(apply_pools_test, long_blocks_are_buffers) {
  EXPECT_EQ(apply_pools::take(buffers, 65535), nullptr) << "malloc serves short blocks better";
  std::vector<void*> blocks;
  for (const std::size_t bytes : {std::size_t{65536}, 3 * mib + 1, std::size_t{100'000}}) {
    blocks.push_back(apply_pools::take(buffers, bytes));
    ASSERT_NE(blocks.back(), nullptr);
    const std::size_t capacity = apply_pools::capacity_of(blocks.back());
    EXPECT_GE(capacity, bytes);
    std::memset(blocks.back(), 1, capacity);
    EXPECT_EQ(apply_pools::capacity_of(static_cast<char*>(blocks.back()) + 8192), 0U) << "no block's start";
  }
  for (void* const block : blocks) {
    EXPECT_TRUE(apply_pools::give(block));
    EXPECT_EQ(apply_pools::capacity_of(block), 0U);
  }
  EXPECT_EQ(apply_pools::take(buffers, ~std::size_t{0}), nullptr);
}

// More buffers than a table of fixed length would hold.
TEST_F(apply_pools_test, any_number_of_buffers_is_known) {
  constexpr std::size_t count = 20'000;
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back(apply_pools::take(buffers, 65536));
    ASSERT_NE(blocks.back(), nullptr) << i;
  }
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), count);
  for (std::size_t i = 0; i < count; i += 2) ASSERT_TRUE(apply_pools::give(blocks[i])) << i;
  for (std::size_t i = 1; i < count; i += 2) {
    ASSERT_GE(apply_pools::capacity_of(blocks[i]), 65536U) << i;
    ASSERT_TRUE(apply_pools::give(blocks[i])) << i;
  }
}

TEST_F(apply_pools_test, blocks_handed_out_are_counted) {
  const unsigned long buffers_before = apply_pools::taken(buffers);
  for (int i = 0; i < 3; ++i) apply_pools::give(apply_pools::take(buffers, mib));
  EXPECT_EQ(apply_pools::taken(buffers), buffers_before + 3);
  std::vector<void*> blocks;
  const unsigned long before = apply_pools::taken(slots_of_100);
  for (int i = 0; i < 5000; ++i) blocks.push_back(apply_pools::take(slots_of_100, 100));
  EXPECT_GT(apply_pools::taken(slots_of_100), before + 4000);
  for (void* const block : blocks) apply_pools::give(block);
}

TEST_F(apply_pools_test, a_block_may_be_freed_by_another_thread) {
  std::vector<void*> blocks;
  for (int i = 0; i < 2000; ++i) {
    blocks.push_back(apply_pools::take(i % 2 == 0 ? slots_of_64 : slots_of_100, 64));
    if (i % 100 == 0) blocks.push_back(apply_pools::take(buffers, 65536));
  }
  std::thread([&] {
    for (void* const block : blocks) EXPECT_TRUE(apply_pools::give(block));
  }).join();
}

TEST_F(apply_pools_test, freeing_leaves_errno_alone) {
  for (void* const block : {apply_pools::take(slots_of_64, 64), apply_pools::take(buffers, 64 * mib)}) {
    errno = EXDEV;
    EXPECT_TRUE(apply_pools::give(block));
    EXPECT_EQ(errno, EXDEV);
  }
}

// The child has one thread, whatever the others were doing in a pool when it was forked.
TEST_F(apply_pools_test, a_forked_child_can_take_and_give_blocks) {
  std::atomic<bool> ends{false};
  std::thread other([&ends] {
    while (!ends.load(std::memory_order_relaxed)) apply_pools::give(apply_pools::take(buffers, 65536));
  });
  int status = 0;
  for (int round = 0; round < 200 && status == 0; ++round) {
    status = testing_support::child_status([] {
      void* const block = apply_pools::take(buffers, 65536);
      return block != nullptr && apply_pools::give(block) ? 0 : 1;
    });
  }
  ends.store(true, std::memory_order_relaxed);
  other.join();
  EXPECT_EQ(status, 0) << "the child hangs, or has no blocks";
}

}  // namespace
}  // namespace tarn::profiler
