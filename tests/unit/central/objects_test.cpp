// SPDX-License-Identifier: MIT
// The bits of a span's objects, against a list of them.
#include "central/objects.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace tarn {
namespace {

constexpr std::uintptr_t start = std::uintptr_t{1} << 40;

// A span as central cuts it, of memory that nobody touches.
class cut_span {
 public:
  explicit cut_span(unsigned size_class)
      : bits_(objects::words(class_info(size_class).objects) + 1, ~std::uint64_t{0}) {
    s.start = start;
    s.pages = class_info(size_class).span_pages;
    s.capacity = class_info(size_class).objects;
    s.size_class = static_cast<std::uint8_t>(size_class);
    s.free_bits = bits_.data();
    objects::set_all_free(s.free_bits, s.capacity);
  }

  std::vector<std::size_t> take(std::size_t most) {
    std::vector<std::size_t> out;
    const std::size_t count = objects::take_free(&s, most, [&](std::size_t index) {
      EXPECT_EQ(objects::index_of(&s, address_of(objects::at(&s, index))), index);
      out.push_back(index);
    });
    EXPECT_EQ(count, out.size());
    return out;
  }
  // Behind the last word.
  [[nodiscard]] std::uint64_t beyond() const { return bits_.back(); }

  span s;

 private:
  std::vector<std::uint64_t> bits_;
};

TEST(objects, of_every_class_are_free_at_first_and_come_in_order) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    cut_span cut(c);
    const std::size_t capacity = class_info(c).objects;
    ASSERT_EQ(objects::count_free(&cut.s), capacity);
    const auto all = cut.take(capacity + 5);
    ASSERT_EQ(all.size(), capacity);
    for (std::size_t i = 0; i < capacity; ++i) {
      ASSERT_EQ(all[i], i);
      ASSERT_FALSE(objects::is_free(&cut.s, i));
    }
    ASSERT_EQ(objects::count_free(&cut.s), 0U);
    ASSERT_TRUE(cut.take(1).empty());
    ASSERT_EQ(cut.beyond(), ~std::uint64_t{0});
  }
}

TEST(objects, end_where_the_span_ends) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    cut_span cut(c);
    const std::size_t last = class_info(c).objects - 1U;
    ASSERT_EQ(address_of(objects::at(&cut.s, last)) + class_info(c).size, cut.s.end());
    ASSERT_GE(objects::first_of(&cut.s), start);
    ASSERT_LT(objects::first_of(&cut.s), start + class_info(c).size) << "another object would fit";
    ASSERT_EQ(address_of(objects::at(&cut.s, 0)), objects::first_of(&cut.s));
  }
}

TEST(objects, set_free_tells_what_was_free_already) {
  for (const unsigned c : {1U, 5U, 40U, size_classes::count - 1}) {
    cut_span cut(c);
    for (std::size_t i = 0; i < cut.s.capacity; ++i) ASSERT_FALSE(objects::set_free(&cut.s, i));
    cut.take(cut.s.capacity);
    for (std::size_t i = 0; i < cut.s.capacity; ++i) {
      ASSERT_TRUE(objects::set_free(&cut.s, i));
      ASSERT_FALSE(objects::set_free(&cut.s, i));
    }
  }
}

TEST(objects, random_taking_and_freeing_agrees_with_a_set) {
  std::mt19937 random(6);
  for (const unsigned c : {1U, 2U, 5U, 9U, 30U, 60U}) {
    cut_span cut(c);
    std::set<std::size_t> free;
    for (std::size_t i = 0; i < cut.s.capacity; ++i) free.insert(i);
    for (int step = 0; step < 3000; ++step) {
      if (random() % 2 == 0) {
        const std::size_t most = 1 + random() % 60;
        for (const std::size_t index : cut.take(most)) {
          ASSERT_EQ(index, *free.begin()) << "not the first free one";
          free.erase(index);
        }
      } else {
        for (int i = 0; i < 40; ++i) {
          const std::size_t index = random() % cut.s.capacity;
          ASSERT_EQ(objects::set_free(&cut.s, index), free.insert(index).second);
        }
      }
      ASSERT_EQ(objects::count_free(&cut.s), free.size());
    }
  }
}

}  // namespace
}  // namespace tarn
