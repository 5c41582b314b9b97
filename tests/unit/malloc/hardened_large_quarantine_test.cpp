// SPDX-License-Identifier: MIT
// hardened_large_quarantine: what goes in comes out once, later, and for a block of its kind only.
#include "malloc/hardened_large_quarantine.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "base/units.hpp"
#include "malloc/hardened_block.hpp"

namespace tarn {
namespace {

std::set<void*> have_left;

// Puts `count` blocks in, which are numbers from `first` on; returns how many calls have given none back.
std::size_t put_in(std::uintptr_t first, std::size_t count, std::size_t size) {
  std::size_t kept = 0;
  for (std::uintptr_t i = first; i != first + count; ++i) {
    void* const leaving = hardened_large_quarantine::exchange(reinterpret_cast<void*>(i), size);
    if (leaving == nullptr) {
      ++kept;
    } else {
      EXPECT_TRUE(have_left.insert(leaving).second) << "it left twice";
      EXPECT_TRUE(first <= address_of(leaving) && address_of(leaving) < i) << "of the other kind";
    }
  }
  return kept;
}

TEST(hardened_large_quarantine, blocks_leave_once_for_one_of_their_kind_or_all_at_once) {
  hardened_block::release_quarantine();
  have_left.clear();
  constexpr std::uintptr_t medium = 1000;
  constexpr std::uintptr_t large = 100'000;
  EXPECT_EQ(put_in(medium, 128, 16 * kib), 128U) << "the queue";
  EXPECT_EQ(put_in(large, 8, 16 * kib + 1), 8U);
  hardened_large_quarantine::take_all([](void* block) { EXPECT_TRUE(have_left.insert(block).second); });
  EXPECT_EQ(have_left.size(), 128U + 8U);
  have_left.clear();
  // Now every random place is taken. The probability that one is not is below 1e-15.
  EXPECT_EQ(put_in(medium, 10'000, 2 * kib), 256U);
  EXPECT_EQ(put_in(large, 1000, 256 * kib), 16U);
  EXPECT_EQ(have_left.size(), 11'000U - 256 - 16);
  hardened_large_quarantine::take_all([](void* block) { EXPECT_TRUE(have_left.insert(block).second); });
  EXPECT_EQ(have_left.size(), 11'000U);
  hardened_large_quarantine::take_all([](void*) { ADD_FAILURE() << "it is empty"; });
}

}  // namespace
}  // namespace tarn
