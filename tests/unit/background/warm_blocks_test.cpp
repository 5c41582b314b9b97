// SPDX-License-Identifier: MIT
// warm_blocks: a buffer that is allocated and freed again and again stays whole, and goes back when the program rests.
#include "background/warm_blocks.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "background/decay.hpp"
#include "background/reclaim.hpp"
#include "base/hardened.hpp"
#include "engine/engine.hpp"
#include "engine/restore.hpp"
#include "tarn/malloc.h"

#include "../bytes.hpp"

namespace tarn {
namespace {

using testing_support::all_bytes_are;
using testing_support::restore_options;

constexpr std::size_t buffer = 3 * mib;

tarn_stats statistics() {
  tarn_stats now;
  tarn_get_stats(&now);
  return now;
}

class warm_blocks_test : public testing::Test {
 protected:
  void SetUp() override {
    if (hardened_build) GTEST_SKIP() << "the hardened build holds freed blocks back from reuse";
    tarn_set_option("decay_ms", "-1");
    engine::trim(0);
  }
  // The last of several pairs; it was freed.
  static void* use_again_and_again() {
    void* last = nullptr;
    for (int i = 0; i < 4; ++i) {
      last = tarn_malloc(buffer);
      std::memset(last, 1, buffer);
      tarn_free(last);
    }
    return last;
  }

  restore_options restore_;
};

TEST_F(warm_blocks_test, the_same_block_serves_the_next_request_without_the_page_heap) {
  void* const last = use_again_and_again();
  EXPECT_EQ(engine::warm_large_spans.bytes(), buffer);
  const std::size_t frees = engine::heap.frees();
  for (int i = 0; i < 100; ++i) {
    void* const block = tarn_malloc(buffer);
    EXPECT_EQ(block, last);
    EXPECT_EQ(engine::warm_large_spans.bytes(), 0U);
    tarn_free(block);
  }
  EXPECT_EQ(engine::heap.frees(), frees);
  engine::warm_large_spans.validate();
  engine::heap.validate();
}

TEST_F(warm_blocks_test, a_batch_that_is_used_again_and_again_stays_out_of_the_page_heap) {
  std::vector<void*> blocks(20);
  std::size_t frees = 0;
  for (int round = 0; round < 4; ++round) {
    for (void*& block : blocks) block = std::memset(tarn_malloc(mib), 1, mib);
    for (void* block : blocks) tarn_free(block);
    if (round == 1) frees = engine::heap.frees();
  }
  EXPECT_EQ(engine::heap.frees(), frees);
  EXPECT_EQ(engine::warm_large_spans.bytes(), blocks.size() * mib);
  engine::warm_large_spans.validate();
  engine::heap.validate();
}

TEST_F(warm_blocks_test, they_serve_other_requests_before_more_memory_is_backed) {
  use_again_and_again();
  const std::size_t backed = engine::heap.backed_bytes();
  void* const shorter = tarn_malloc(buffer - mib);
  EXPECT_EQ(engine::warm_large_spans.bytes(), 0U);
  EXPECT_LE(engine::heap.backed_bytes(), backed);
  tarn_free(shorter);
}

TEST_F(warm_blocks_test, calloc_returns_zeroes) {
  void* const last = use_again_and_again();
  void* const block = tarn_calloc(1, buffer);
  EXPECT_EQ(block, last);
  EXPECT_TRUE(all_bytes_are(block, buffer, 0));
  tarn_free(block);
}

TEST_F(warm_blocks_test, calloc_returns_zeroes_from_a_block_that_grew_over_returned_pages) {
  void* const last = use_again_and_again();
  void* const block = tarn_malloc(buffer);
  ASSERT_EQ(tarn_realloc(block, buffer - mib), block);
  engine::trim(0);
  ASSERT_EQ(tarn_realloc(block, buffer), block);
  std::memset(block, 1, buffer);
  tarn_free(block);
  void* const zeroed = tarn_calloc(1, buffer);
  EXPECT_EQ(zeroed, last);
  EXPECT_TRUE(all_bytes_are(zeroed, buffer, 0));
  tarn_free(zeroed);
}

TEST_F(warm_blocks_test, a_period_gives_them_to_the_page_heap_and_two_to_the_system) {
  use_again_and_again();
  EXPECT_TRUE(decay::run_period());
  EXPECT_EQ(engine::warm_large_spans.bytes(), 0U);
  EXPECT_GE(engine::heap.dirty_bytes(), buffer);
  for (int period = 0; period < 3; ++period) decay::run_period();
  EXPECT_EQ(engine::heap.dirty_bytes(), 0U);
}

TEST_F(warm_blocks_test, without_a_thread_pairs_run_the_periods_that_are_due) {
  ASSERT_EQ(tarn_set_option("background", "off"), 0);
  ASSERT_EQ(tarn_set_option("decay_ms", "20"), 0);
  const std::size_t before = engine::heap.stats().returned;
  // 6 MB lie free; the pairs may use 3 MiB of them.
  std::vector<void*> others(20);
  for (void*& block : others) block = std::memset(tarn_malloc(300 * kib), 1, 300 * kib);
  for (void* block : others) tarn_free(block);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (engine::heap.stats().returned < before + 2 * mib && std::chrono::steady_clock::now() < end) {
    use_again_and_again();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GE(engine::heap.stats().returned, before + 2 * mib);
}

TEST_F(warm_blocks_test, trim_gives_them_back_at_once) {
  use_again_and_again();
  EXPECT_GE(engine::trim(0), buffer);
  EXPECT_EQ(engine::warm_large_spans.bytes(), 0U);
}

TEST_F(warm_blocks_test, they_count_as_cached_and_not_as_live) {
  const tarn_stats before = statistics();
  use_again_and_again();
  const tarn_stats after = statistics();
  EXPECT_EQ(after.large, before.large);
  EXPECT_EQ(after.cached - before.cached, buffer);
}

TEST_F(warm_blocks_test, where_no_free_memory_may_stay_none_is_kept) {
  ASSERT_EQ(tarn_set_option("large_cache", "0"), 0);
  use_again_and_again();
  EXPECT_EQ(engine::warm_large_spans.bytes(), 0U);
}

TEST_F(warm_blocks_test, a_request_beyond_the_limit_takes_them) {
  use_again_and_again();
  const std::size_t backed = engine::heap.backed_bytes() + engine::metadata.used();
  engine::heap.limits().set_most(backed + mib);
  void* const longer = tarn_malloc(buffer + mib / 2);
  EXPECT_NE(longer, nullptr);
  engine::heap.limits().set_most(backing_limits::none);
  tarn_free(longer);
}

}  // namespace
}  // namespace tarn
