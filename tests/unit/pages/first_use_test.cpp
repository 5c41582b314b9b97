// SPDX-License-Identifier: MIT
#include "pages/first_use.hpp"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

namespace tarn {
namespace {

constexpr std::uintptr_t first_byte = std::uintptr_t{1} << 40;

class first_use_test : public testing::Test {
 protected:
  // In bytes behind first_byte.
  bool take(std::size_t from, std::size_t to) {
    const bool is_first = use_.take_locked(first_byte + from, first_byte + to);
    use_.validate_locked();
    return is_first;
  }
  first_use use_;
};

TEST_F(first_use_test, both_ends_of_a_reservation) {
  use_.reserved_locked(first_byte, 1000);
  EXPECT_TRUE(take(0, 10));
  EXPECT_TRUE(take(990, 1000));
  EXPECT_TRUE(take(10, 20));
  EXPECT_TRUE(take(900, 990));
  EXPECT_FALSE(take(0, 10)) << "handed out again";
  EXPECT_FALSE(take(950, 1000));
  EXPECT_TRUE(take(20, 900)) << "all that was left";
  EXPECT_FALSE(take(20, 21));
}

TEST_F(first_use_test, a_part_that_was_handed_out_before_counts) {
  use_.reserved_locked(first_byte, 1000);
  EXPECT_TRUE(take(0, 10));
  EXPECT_FALSE(take(5, 15));
  EXPECT_TRUE(take(15, 20)) << "the rest is still known";
  EXPECT_TRUE(take(990, 1000));
  EXPECT_FALSE(take(985, 995));
  EXPECT_TRUE(take(980, 985));
  EXPECT_FALSE(take(0, 1000));
  EXPECT_FALSE(take(20, 30));
}

TEST_F(first_use_test, a_reservation_that_becomes_longer) {
  use_.reserved_locked(first_byte, 1000);
  EXPECT_TRUE(take(0, 10));
  use_.reserved_locked(first_byte + 1000, 1000);
  EXPECT_TRUE(take(10, 1500));
  use_.reserved_locked(first_byte + 5000, 1000);
  EXPECT_FALSE(take(1500, 1600)) << "only the newest reservation is known";
  EXPECT_TRUE(take(5000, 5100));
}

TEST_F(first_use_test, what_is_mapped_after_an_unmapping_may_have_been_used) {
  use_.reserved_locked(first_byte, 1000);
  use_.unmapped_locked(first_byte + 9000, first_byte + 9100);
  EXPECT_TRUE(take(0, 10)) << "this was reserved before";
  use_.reserved_locked(first_byte + 5000, 1000);
  EXPECT_FALSE(take(5000, 5100));
  use_.reserved_locked(first_byte + 6000, 1000);
  EXPECT_FALSE(take(6000, 6100));
}

TEST_F(first_use_test, what_has_been_unmapped_may_belong_to_others) {
  use_.reserved_locked(first_byte, 1000);
  use_.unmapped_locked(first_byte + 600, first_byte + 900);
  EXPECT_FALSE(take(700, 710)) << "a block may have been mapped there";
  EXPECT_TRUE(take(500, 600));
}

TEST_F(first_use_test, never_says_so_twice_of_one_byte) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    use_ = first_use();
    use_.reserved_locked(first_byte, 100);
    std::bitset<100> used;
    for (int i = 0; i < 30; ++i) {
      std::size_t from = random() % 100;
      std::size_t to = random() % 100;
      if (from > to) std::swap(from, to);
      ++to;
      const bool is_first = take(from, to);
      for (std::size_t at = from; at < to; ++at) {
        ASSERT_FALSE(is_first && used[at]) << round << ", byte " << at;
        used[at] = true;
      }
    }
  }
}

}  // namespace
}  // namespace tarn
