// SPDX-License-Identifier: MIT
// Blocks found by start and by any address within them, compared with std::map.
#include "profiler/collect/block_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "../../unit/broken_invariant.hpp"

namespace {

using namespace tarn::profiler;

living_block block_at(std::uint64_t address, std::uint64_t size) {
  return {.address = address, .size = size};
}

TEST(block_table, finds_the_block_that_contains_an_address) {
  block_table table(true);
  table.insert(block_at(0x10000, 64));
  table.insert(block_at(0x10050, 24));
  table.insert(block_at(0x20ff0, 9000));
  table.insert(block_at(0x100000, 1 << 20));
  EXPECT_EQ(table.find_within(0x1003f)->address, 0x10000U);
  EXPECT_EQ(table.find_within(0x10040), nullptr);
  EXPECT_EQ(table.find_within(0x10051)->address, 0x10050U);
  EXPECT_EQ(table.find_within(0x22ffe)->address, 0x20ff0U);
  EXPECT_EQ(table.find_within(0x1fffff)->address, 0x100000U);
  EXPECT_EQ(table.find_within(0x200000), nullptr);
  EXPECT_EQ(table.find_within(8), nullptr);
}

TEST(block_table, nothing_lies_at_0) {
  block_table table(true);
  EXPECT_EQ(table.find(0), nullptr);
  table.erase(0);
  EXPECT_EQ(table.size(), 0U);
}

TEST(block_table, without_ranges_it_finds_blocks_by_their_start_only) {
  block_table table(false);
  table.insert(block_at(0x10000, 64));
  EXPECT_NE(table.find(0x10000), nullptr);
  EXPECT_EQ(table.find_within(0x10010), nullptr);
}

TEST(block_table, distinguishes_blocks_of_eight_bytes) {
  block_table table(true);
  table.insert(block_at(0x10000, 8));
  table.insert(block_at(0x10008, 8));
  EXPECT_EQ(table.find_within(0x10007)->address, 0x10000U);
  EXPECT_EQ(table.find_within(0x1000f)->address, 0x10008U);
  table.erase(0x10000);
  EXPECT_EQ(table.find_within(0x10007), nullptr);
  EXPECT_EQ(table.find_within(0x1000f)->address, 0x10008U);
  table.erase(0x10008);
  EXPECT_EQ(table.find_within(0x1000f), nullptr);
  EXPECT_EQ(table.size(), 0U);
}

// As in a pool of objects of 24 bytes: the second begins where the last 8 bytes of the first are in the same 16 bytes.
TEST(block_table, finds_a_block_whose_last_granule_is_the_next_ones_first) {
  block_table table(true);
  table.insert(block_at(0x10000, 24));
  table.insert(block_at(0x10018, 24));
  ASSERT_NE(table.find_within(0x10017), nullptr);
  EXPECT_EQ(table.find_within(0x10017)->address, 0x10000U);
  EXPECT_EQ(table.find_within(0x10018)->address, 0x10018U);
}

// Compared with a std::map, over 200,000 insertions and erasures, which make the table grow.
TEST(block_table, agrees_with_a_plain_map) {
  block_table table(true);
  std::map<std::uint64_t, std::uint64_t> truth;
  std::mt19937_64 random(7);
  for (int step = 0; step < 200000; ++step) {
    const std::uint64_t address = 0x7f0000000000 + random() % (40000 * 512) * 8;
    const auto above = truth.upper_bound(address);
    const bool within = above != truth.begin() && std::prev(above)->second > address;
    ASSERT_EQ(table.find_within(address) != nullptr, within) << step;
    const std::uint64_t last_byte = within ? std::prev(above)->second - 1 : address;
    const living_block* found = table.find_within(last_byte);
    ASSERT_EQ(found != nullptr, within) << step;
    if (within) {
      ASSERT_EQ(found->address, std::prev(above)->first);
      table.erase(found->address);
      truth.erase(std::prev(above));
    } else {
      std::uint64_t size = 1 + random() % (random() % 8 == 0 ? 100000 : 3000);
      if (above != truth.end()) size = std::min(size, above->first - address);
      table.insert(block_at(address, size));
      truth[address] = address + size;
    }
    ASSERT_EQ(table.size(), truth.size());
  }
}

TEST(block_table, finds_a_broken_invariant) {
  block_table table(true);
  table.insert(block_at(0x10000, 64));
  table.insert(block_at(0x100000, 1 << 20));
  table.validate();
  living_block& small = *table.find(0x10000);
  small.size = 1 << 20;
  EXPECT_BROKEN(table.validate(), "block_table", "!is_large || large_.count(block.address) == 1", &table);
  small.size = 64;
  small.address = 0x10010;
  EXPECT_BROKEN(table.validate(), "block_table",
                "is_large || (page != nullptr && (page->starts[bit / 64] >> (bit % 64) & 1) != 0)", &table);
  small.address = 0;
  EXPECT_BROKEN(table.validate(), "block_table", "blocks_.size() == blocks", &table);
  small = block_at(0x10000, 64);
  table.validate();
}

}  // namespace
