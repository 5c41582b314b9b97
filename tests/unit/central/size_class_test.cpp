// SPDX-License-Identifier: MIT
// Exhaustive: every size, every class, every offset in a span.
#include "central/size_class.hpp"

#include <gtest/gtest.h>

#include "central/objects.hpp"

namespace tarn {
namespace {

TEST(size_class, every_size_has_the_least_class_that_holds_it) {
  unsigned expected = 1;
  for (std::size_t size = 0; size <= largest_class_size; ++size) {
    while (class_info(expected).size < size) ++expected;
    ASSERT_EQ(class_of_size(size), expected) << size;
    if (size <= size_classes::fine_end) {
      ASSERT_EQ(fine_class_of(size), expected) << size;
    }
  }
  EXPECT_EQ(expected, size_classes::count - 1) << "every class is the best for some size";
  EXPECT_EQ(class_info(size_classes::count - 1).size, largest_class_size);
}

TEST(size_class, rounding_loss) {
  for (std::size_t size = 1; size <= largest_class_size; ++size) {
    const std::size_t loss = class_info(class_of_size(size)).size - size;
    if (size <= size_classes::linear_end) {
      ASSERT_LE(loss, 15U) << size;
    } else {
      ASSERT_LE(loss * 9, size + loss) << size;
    }
  }
}

TEST(size_class, objects_are_aligned) {
  for (std::size_t size = 1; size <= largest_class_size; ++size) {
    const std::size_t object = class_info(class_of_size(size)).size;
    ASSERT_EQ(object % (size >= 16 ? 16 : 8), 0U) << size;
  }
}

TEST(size_class, classes_grow_and_class_0_is_none) {
  EXPECT_EQ(class_info(0).size, 0U);
  for (unsigned c = 2; c < size_classes::count; ++c) {
    EXPECT_GT(class_info(c).size, class_info(c - 1).size);
  }
}

TEST(size_class, spans_waste_little_and_bytes_hold_all_numbers) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const auto& info = class_info(c);
    const std::size_t bytes = std::size_t{info.span_pages} << page_shift;
    const std::size_t used = std::size_t{info.objects} * info.size;
    ASSERT_LE(used, bytes);
    ASSERT_LT(bytes - used, info.size) << "another object would fit";
    ASSERT_LE((bytes - used) * tail_waste_divisor, bytes) << info.size;
    ASSERT_GE(info.magazine, 1);
    ASSERT_LT(info.magazine, object_away) << "a slot number must not be taken for a state";
    ASSERT_LE(std::size_t{info.magazine} * info.size, std::max<std::size_t>(magazine_bytes, info.size));
  }
}

TEST(size_class, reciprocals_divide_exactly) {
  constexpr std::uintptr_t start = std::uintptr_t{1} << 40;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const auto& info = class_info(c);
    span s;
    s.start = start;
    s.reciprocal = info.reciprocal;
    const std::size_t bytes = std::size_t{info.span_pages} << page_shift;
    std::size_t index = 0;
    std::size_t rest = 0;
    for (std::size_t offset = 0; offset < bytes; ++offset) {
      const object_index at = index_in(&s, start + offset);
      if (at.index != index || at.exact != (rest == 0)) {
        FAIL() << "offset " << offset << " in a span of objects of " << info.size << ": index " << at.index;
      }
      if (++rest == info.size) {
        rest = 0;
        ++index;
      }
    }
  }
}

}  // namespace
}  // namespace tarn
