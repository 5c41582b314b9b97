// SPDX-License-Identifier: MIT
// Reachable, lost and indirectly lost blocks in made-up memory.
#include "profiler/collect/leak_search.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tarn::profiler {
namespace {

// Memory as a map of words; words that are not set are zero.
struct memory {
  std::map<std::uint64_t, std::uint64_t> words;
  std::uint64_t last = 0;

  leak_search::reader reader() {
    return [this](std::uint64_t address, std::size_t /*words*/, std::size_t& count) {
      count = 1;
      const auto at = words.find(address);
      last = at == words.end() ? 0 : at->second;
      return &last;
    };
  }
};

std::vector<reach> search(memory& all, const std::vector<searched_block>& blocks,
                          const std::vector<root_range>& roots) {
  leak_search made(blocks, all.reader());
  for (const root_range& root : roots) made.add_root(root);
  made.finish();
  std::vector<reach> states;
  for (std::size_t index = 0; index < blocks.size(); ++index) states.push_back(made.state(index));
  return states;
}

using enum reach;

TEST(leak_search, what_a_root_leads_to_directly_or_not_is_reachable) {
  memory all;
  all.words = {{0x100, 0x1010}, {0x1000, 0x2000}};
  EXPECT_EQ(search(all, {{0x1000, 32, 0}, {0x2000, 8, 0}, {0x3000, 8, 0}}, {{0x100, 0x110, false}}),
            (std::vector{reachable, reachable, lost}));
}

TEST(leak_search, an_address_after_the_last_byte_does_not_reach_a_block) {
  memory all;
  all.words = {{0x100, 0x1020}, {0x108, 0x101f}, {0x110, 0x3000}};
  EXPECT_EQ(search(all, {{0x1000, 32, 0}, {0x2000, 32, 0}}, {{0x100, 0x108, false}}),
            (std::vector{lost, lost}));
  EXPECT_EQ(search(all, {{0x1000, 32, 0}, {0x3000, 0, 0}}, {{0x108, 0x118, false}}),
            (std::vector{reachable, reachable}));
}

TEST(leak_search, the_head_of_a_chain_is_lost_and_the_others_indirectly) {
  memory all;
  all.words = {{0x3000, 0x2000}, {0x2000, 0x1000}};
  EXPECT_EQ(search(all, {{0x1000, 8, 0}, {0x2000, 8, 0}, {0x3000, 8, 0}}, {}),
            (std::vector{indirect, indirect, lost}));
}

TEST(leak_search, one_block_of_each_ring_is_lost) {
  memory all;
  all.words = {{0x1000, 0x2000}, {0x2000, 0x1000}, {0x3000, 0x4000}, {0x4000, 0x3000}, {0x4008, 0x4000}};
  EXPECT_EQ(search(all, {{0x1000, 8, 0}, {0x2000, 8, 0}, {0x3000, 8, 0}, {0x4000, 16, 0}}, {}),
            (std::vector{lost, indirect, lost, indirect}));
}

TEST(leak_search, a_block_that_only_leads_to_itself_is_lost) {
  memory all;
  all.words = {{0x1000, 0x1000}};
  EXPECT_EQ(search(all, {{0x1000, 8, 0}}, {}), std::vector{lost});
}

// glibc keeps the address of the header of free memory, which is in the last word of the block before it.
TEST(leak_search, the_allocators_address_of_free_memory_reaches_no_block) {
  memory all;
  all.words = {{0x100, 0x1010}, {0x108, 0x1000}};
  EXPECT_EQ(search(all, {{0x1000, 24, 0}}, {{0x100, 0x108, true}}), std::vector{lost});
  EXPECT_EQ(search(all, {{0x1000, 24, 0}}, {{0x100, 0x108, false}}), std::vector{reachable});
  EXPECT_EQ(search(all, {{0x1000, 24, 0}}, {{0x100, 0x110, true}}), std::vector{reachable});
}

}  // namespace
}  // namespace tarn::profiler
