// SPDX-License-Identifier: MIT
// The group of each block is what was noted, until it is taken.
#include "profiler/tail/block_groups.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tarn::profiler::tail {
namespace {

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(block_groups, a_group_is_taken_once) {
  note_group(at(0x7f0012345670), 3);
  EXPECT_EQ(take_group(at(0x7f0012345680)), 0);
  EXPECT_EQ(take_group(at(0x7f0012345670)), 3);
  EXPECT_EQ(take_group(at(0x7f0012345670)), 0);
}

TEST(block_groups, the_first_group_and_no_block_need_no_note) {
  note_group(nullptr, 2);
  EXPECT_EQ(take_group(nullptr), 0);
  note_group(at(0x5500000000), 0);
  EXPECT_EQ(take_group(at(0x5500000000)), 0);
}

TEST(block_groups, tagged_pointers_are_the_same_block) {
  note_group(at(0x1200'7f00'0000'1000), 1);
  EXPECT_EQ(take_group(at(0x7f00'0000'1000)), 1);
}

TEST(block_groups, the_highest_address) {
  note_group(at(0xffff'ffff'fff0), 2);
  EXPECT_EQ(take_group(at(0xffff'ffff'fff0)), 2);
}

TEST(block_groups, threads_note_side_by_side) {
  std::vector<std::thread> threads;
  for (std::uintptr_t number = 0; number < 4; ++number) {
    threads.emplace_back([number] {
      for (std::uintptr_t block = number; block < 100'000; block += 4)
        note_group(at(0x6600'0000'0000 + block * 4096), static_cast<std::uint8_t>(1 + number % 3));
    });
  }
  for (std::thread& each : threads) each.join();
  for (std::uintptr_t block = 0; block < 100'000; ++block)
    ASSERT_EQ(take_group(at(0x6600'0000'0000 + block * 4096)), 1 + block % 4 % 3);
}

}  // namespace
}  // namespace tarn::profiler::tail
