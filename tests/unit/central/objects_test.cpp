// SPDX-License-Identifier: MIT
// The searches by groups of eight bytes, against the same searches byte by byte.
#include "central/objects.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace tarn {
namespace {

class objects_test : public testing::Test {
 protected:
  void make(std::size_t capacity) {
    capacity_ = capacity;
    bytes_ = std::make_unique<objects::byte[]>(objects::array_bytes(capacity));
    objects::fill_free(bytes_.get(), capacity);
  }
  void set(std::size_t i, unsigned value) { bytes_[i].store(static_cast<std::uint8_t>(value)); }
  [[nodiscard]] bool free_at(std::size_t i) const { return bytes_[i].load() == object_free; }

  // A state that no object that is free has.
  unsigned used_state() { return static_cast<unsigned>(random_() % (largest_magazine + 1)); }

  // What find_free must give.
  [[nodiscard]] std::vector<std::uint16_t> free_from(std::size_t from, std::size_t most) const {
    std::vector<std::uint16_t> out;
    for (std::size_t i = from; i < capacity_ && out.size() < most; ++i) {
      if (free_at(i)) out.push_back(static_cast<std::uint16_t>(i));
    }
    return out;
  }

  std::size_t capacity_ = 0;
  std::unique_ptr<objects::byte[]> bytes_;
  std::mt19937 random_{6};
};

TEST_F(objects_test, a_new_array_is_all_free_with_a_byte_behind_it) {
  for (const std::size_t capacity : {1U, 2U, 7U, 8U, 9U, 63U, 255U, 2048U}) {
    make(capacity);
    for (std::size_t i = 0; i < capacity; ++i) ASSERT_TRUE(free_at(i));
    for (std::size_t i = capacity; i < objects::array_bytes(capacity); ++i) {
      ASSERT_EQ(bytes_[i].load(), no_object);
    }
    EXPECT_GT(objects::array_bytes(capacity), capacity);
    EXPECT_TRUE(objects::any_free(bytes_.get(), capacity));
    EXPECT_TRUE(objects::are_all_free(bytes_.get(), capacity));
  }
}

TEST_F(objects_test, one_free_object_is_found_wherever_it_is) {
  for (const std::size_t capacity : {1U, 5U, 8U, 13U, 64U, 85U}) {
    make(capacity);
    for (std::size_t i = 0; i < capacity; ++i) set(i, used_state());
    EXPECT_FALSE(objects::any_free(bytes_.get(), capacity));
    for (std::size_t i = 0; i < capacity; ++i) {
      set(i, object_free);
      EXPECT_TRUE(objects::any_free(bytes_.get(), capacity)) << i << " of " << capacity;
      EXPECT_EQ(objects::are_all_free(bytes_.get(), capacity), capacity == 1);
      std::uint16_t found[1] = {};
      std::size_t from = 0;
      ASSERT_EQ(objects::find_free(bytes_.get(), capacity, from, found, 1), 1U);
      EXPECT_EQ(found[0], i);
      EXPECT_EQ(from, i + 1);
      set(i, used_state());
    }
  }
}

TEST_F(objects_test, one_object_in_use_is_seen_wherever_it_is) {
  for (const std::size_t capacity : {1U, 5U, 8U, 13U, 64U, 85U}) {
    make(capacity);
    for (std::size_t i = 0; i < capacity; ++i) {
      set(i, used_state());
      EXPECT_FALSE(objects::are_all_free(bytes_.get(), capacity)) << i << " of " << capacity;
      set(i, object_free);
    }
  }
}

TEST_F(objects_test, searches_agree_with_the_naive_ones) {
  for (int round = 0; round < 3000; ++round) {
    make(1 + random_() % 300);
    const unsigned density = static_cast<unsigned>(random_() % 5);
    for (std::size_t i = 0; i < capacity_; ++i) {
      // Runs, so that whole groups are of one kind.
      if (random_() % 4 < density) {
        const unsigned state = random_() % 2 == 0 ? 0 : used_state();
        for (std::size_t run = random_() % 20; run > 0 && i < capacity_; --run, ++i) set(i, state);
      }
    }
    std::size_t cursor = 0;
    while (cursor < capacity_) {
      const std::size_t most = 1 + random_() % 40;
      std::uint16_t found[64];
      const std::vector<std::uint16_t> expected = free_from(cursor, most);
      const std::size_t before = cursor;
      const std::size_t count = objects::find_free(bytes_.get(), capacity_, cursor, found, most);
      ASSERT_EQ(std::vector<std::uint16_t>(found, found + count), expected);
      ASSERT_EQ(cursor, count < most ? capacity_ : expected.back() + 1U) << "from " << before;
    }
    ASSERT_EQ(objects::any_free(bytes_.get(), capacity_), !free_from(0, 1).empty());
    ASSERT_EQ(objects::are_all_free(bytes_.get(), capacity_), free_from(0, capacity_).size() == capacity_);
  }
}

}  // namespace
}  // namespace tarn
