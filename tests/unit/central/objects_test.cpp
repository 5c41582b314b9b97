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
  [[nodiscard]] std::vector<std::uint16_t> free_ones(std::size_t most) const {
    std::vector<std::uint16_t> out;
    for (std::size_t i = 0; i < capacity_ && out.size() < most; ++i) {
      if (free_at(i)) out.push_back(static_cast<std::uint16_t>(i));
    }
    return out;
  }
  std::vector<std::uint16_t> found(std::size_t most) {
    std::vector<std::uint16_t> out(most + 1, 0xffff);
    out.resize(objects::find_free(bytes_.get(), capacity_, out.data(), most));
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
    EXPECT_EQ(objects::count_free(bytes_.get(), capacity), capacity);
    EXPECT_EQ(found(capacity).size(), capacity);
  }
}

TEST_F(objects_test, one_free_object_is_found_wherever_it_is_and_whatever_is_beside_it) {
  for (const std::size_t capacity : {1U, 5U, 8U, 13U, 64U, 85U}) {
    // 254 and 253 are the states nearest to `free`.
    for (const unsigned beside : {0U, 1U, 127U, 128U, 252U, 253U, 254U}) {
      make(capacity);
      for (std::size_t i = 0; i < capacity; ++i) set(i, beside);
      EXPECT_TRUE(found(capacity).empty());
      for (std::size_t i = 0; i < capacity; ++i) {
        set(i, object_free);
        ASSERT_EQ(found(1), std::vector<std::uint16_t>{static_cast<std::uint16_t>(i)}) << capacity;
        ASSERT_EQ(found(capacity).size(), 1U);
        ASSERT_EQ(objects::count_free(bytes_.get(), capacity), 1U);
        set(i, beside);
      }
    }
  }
}

TEST_F(objects_test, one_object_in_use_is_left_out_wherever_it_is) {
  for (const std::size_t capacity : {1U, 5U, 8U, 13U, 64U, 85U}) {
    make(capacity);
    for (std::size_t i = 0; i < capacity; ++i) {
      set(i, used_state());
      ASSERT_EQ(found(capacity), free_ones(capacity)) << i << " of " << capacity;
      ASSERT_EQ(objects::count_free(bytes_.get(), capacity), capacity - 1);
      set(i, object_free);
    }
  }
}

TEST_F(objects_test, the_search_agrees_with_the_naive_one) {
  for (int round = 0; round < 5000; ++round) {
    make(1 + random_() % 300);
    const unsigned density = static_cast<unsigned>(random_() % 5);
    for (std::size_t i = 0; i < capacity_; ++i) {
      // Runs, so that whole groups are of one kind.
      if (random_() % 4 < density) {
        const unsigned state = random_() % 2 == 0 ? 0 : used_state();
        for (std::size_t run = random_() % 20; run > 0 && i < capacity_; --run, ++i) set(i, state);
      }
    }
    const std::size_t most = 1 + random_() % 60;
    ASSERT_EQ(found(most), free_ones(most));
    ASSERT_EQ(objects::count_free(bytes_.get(), capacity_), free_ones(capacity_).size());
  }
}

}  // namespace
}  // namespace tarn
