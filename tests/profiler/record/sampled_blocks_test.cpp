// SPDX-License-Identifier: MIT
// The table of sampled blocks and its filter, compared with std::map.
#include "profiler/record/sampled_blocks.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "../../unit/broken_invariant.hpp"
#include "profiler/record/call_path.hpp"

namespace tarn::profiler {

class sampled_blocks_test_access {
 public:
  static std::uint32_t& count(sampled_blocks& blocks) { return blocks.count_; }
};

}  // namespace tarn::profiler

namespace {

using namespace tarn::profiler;

bool may_hold(const block_filter* filter, void* block) {
  return filter->counts()[filter_hash(block) & filter->mask] != 0;
}

TEST(sampled_blocks, the_filter_has_every_sampled_block) {
  auto* blocks = static_cast<sampled_blocks*>(map_pages(sizeof(sampled_blocks)));
  std::atomic<const block_filter*> filter{nullptr};
  std::map<void*, std::size_t> truth;
  std::mt19937_64 random(5);
  int false_alarms = 0;
  for (int step = 0; step < 100000; ++step) {
    auto* block = reinterpret_cast<void*>(0x7f0000000000 + random() % 20000 * 48 / 16 * 16);
    const auto known = truth.find(block);
    std::size_t size = 0;
    if (known != truth.end()) {
      ASSERT_TRUE(may_hold(filter.load(), block));
      ASSERT_TRUE(blocks->take(block, size));
      ASSERT_EQ(size, known->second);
      truth.erase(known);
    } else if (step % 3 != 0) {
      ASSERT_TRUE(blocks->insert(block, static_cast<std::size_t>(step), filter));
      truth[block] = static_cast<std::size_t>(step);
    } else {
      if (filter.load() != nullptr) false_alarms += may_hold(filter.load(), block) ? 1 : 0;
      ASSERT_FALSE(blocks->take(block, size));
    }
  }
  EXPECT_LT(false_alarms, 100000 / 3 / 4);
  unmap_pages(blocks, sizeof(sampled_blocks));
}

TEST(sampled_blocks, finds_a_broken_invariant) {
  auto* blocks = static_cast<sampled_blocks*>(map_pages(sizeof(sampled_blocks)));
  std::atomic<const block_filter*> filter{nullptr};
  ASSERT_TRUE(blocks->insert(&filter, 1, filter));
  blocks->validate_locked();
  auto* const here = const_cast<block_filter*>(filter.load());
  std::uint8_t& count = here->counts()[filter_hash(&filter) & here->mask];
  count = 0;
  EXPECT_BROKEN(blocks->validate_locked(), "sampled_blocks", "count > 0", blocks);
  count = 2;
  EXPECT_BROKEN(blocks->validate_locked(), "sampled_blocks", "counted == entries || has_full_count", blocks);
  count = 1;
  sampled_blocks_test_access::count(*blocks) = 2;
  EXPECT_BROKEN(blocks->validate_locked(), "sampled_blocks", "count_ == entries", blocks);
  sampled_blocks_test_access::count(*blocks) = 1;
  blocks->release();
  unmap_pages(blocks, sizeof(sampled_blocks));
}

}  // namespace
