// SPDX-License-Identifier: MIT
// The free bits of a span's objects, compared with sets and lists of free objects.
#include "slots/objects.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

constexpr std::uintptr_t start = std::uintptr_t{1} << 40;

// A span like those that central makes. Its memory does not exist; only its bits are used.
class cut_span {
 public:
  explicit cut_span(unsigned size_class)
      : bits_(objects::words(class_info(size_class).objects) + 1, ~std::uint64_t{0}) {
    s.start = start;
    s.pages = class_info(size_class).span_pages;
    objects::cut(&s, size_class, bits_.data());
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
  // The word after the last one, which nothing may change.
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

// Random steps, compared with a list of blocks.
TEST(objects, runs_of_grains_are_found_taken_and_freed) {
  constexpr unsigned smallest = size_classes::count;
  std::mt19937 random(7);
  std::vector<std::uint64_t> bits(2 * objects::words(size_classes::most_grains));
  span s;
  s.start = start;
  s.pages = 1;
  s.capacity = size_classes::most_grains;
  s.size_class = smallest;
  s.free_bits = bits.data();
  objects::set_all_free(s.free_bits, s.capacity);
  std::vector<bool> is_free(s.capacity, true);
  std::vector<std::pair<std::size_t, std::size_t>> blocks;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t length = 1 + random() % (step % 100 == 0 ? 130 : 12);
    std::size_t expected = 0;
    std::size_t run = 0;
    while (expected < s.capacity && run < length) run = is_free[expected++] ? run + 1 : 0;
    const std::size_t found = objects::find_run(&s, 0, length);
    if (run == length) {
      ASSERT_EQ(found, expected - length);
      objects::tie(&s, found, length);
      ASSERT_EQ(objects::run_length(&s, found), length);
      blocks.emplace_back(found, length);
      for (std::size_t i = 0; i < length; ++i) is_free[found + i] = false;
    } else {
      ASSERT_GE(found, s.capacity);
    }
    if (blocks.empty() || (run == length && random() % 2 == 0)) continue;
    std::swap(blocks[random() % blocks.size()], blocks.back());
    const auto [first, freed] = blocks.back();
    blocks.pop_back();
    if (freed > 1) {
      ASSERT_EQ(objects::untie(&s, first + freed - 1), 0U) << "a block that begins there";
    }
    ASSERT_EQ(objects::untie(&s, first), freed);
    ASSERT_EQ(objects::untie(&s, first), 0U) << "freed twice";
    for (std::size_t i = 0; i < freed; ++i) is_free[first + i] = true;
    ASSERT_EQ(objects::count_free(&s),
              static_cast<std::size_t>(std::count(is_free.begin(), is_free.end(), true)));
  }
}

TEST(objects, finds_a_broken_invariant) {
  cut_span cut(3);
  cut.s.free_objects = cut.s.capacity;
  objects::validate(&cut.s);
  objects::take_free(&cut.s, 1, [](std::size_t) {});
  EXPECT_BROKEN(objects::validate(&cut.s), "objects", "s->free_objects == count_free(s)", &cut.s);
  // An object less: the last bit then lies beyond the last object.
  cut.s.capacity--;
  cut.s.free_objects = static_cast<std::uint16_t>(objects::count_free(&cut.s));
  EXPECT_BROKEN(objects::validate(&cut.s), "objects", "beyond == 0", &cut.s);

  std::uint64_t bits_and_ties[2] = {15, 0};
  span grains;
  grains.size_class = size_classes::count;
  grains.capacity = grains.free_objects = 4;
  grains.free_bits = bits_and_ties;
  objects::tie(&grains, 0, 2);
  grains.free_objects = 2;
  objects::validate(&grains);
  bits_and_ties[1] |= 4;
  EXPECT_BROKEN(objects::validate(&grains), "objects", "(ties & s->free_bits[w]) == 0", &grains);
}

}  // namespace
}  // namespace tarn
