// SPDX-License-Identifier: MIT
// The table of size classes, checked exhaustively: every size, every class, every offset in a span.
#include "slots/size_class.hpp"

#include <gtest/gtest.h>

#include "slots/objects.hpp"

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
  EXPECT_EQ(expected, size_classes::count - 1) << "a class is the best for no size";
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

TEST(size_class, spans_waste_little) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const auto& info = class_info(c);
    const std::size_t bytes = std::size_t{info.span_pages} << page_shift;
    const std::size_t used = std::size_t{info.objects} * info.size;
    ASSERT_LE(used, bytes);
    ASSERT_LT(bytes - used, info.size) << "another object would fit";
    ASSERT_LE((bytes - used) * tail_waste_divisor, bytes) << info.size;
    ASSERT_GE(info.magazine, 1);
    ASSERT_LE(info.objects, most_span_objects * (page_size / (most_span_objects * 8)))
        << "more objects than free bits";
    ASSERT_LE(std::size_t{info.magazine} * info.size, std::max<std::size_t>(magazine_bytes, info.size));
  }
}

TEST(size_class, reciprocals_divide_exactly) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const auto& info = class_info(c);
    span s;
    s.start = std::uintptr_t{1} << 40;
    s.pages = info.span_pages;
    s.capacity = info.objects;
    s.size_class = static_cast<std::uint8_t>(c);
    // The distance that the page map returns may exceed an offset in a span by up to one object's size.
    const std::size_t distances = s.bytes() + info.size;
    std::size_t index = 0;
    std::size_t rest = 0;
    for (std::size_t distance = 0; distance < distances; ++distance) {
      const bool in_span = objects::first_of(&s) + distance < s.end();
      if (is_multiple(distance, info.reciprocal) != (rest == 0) ||
          (in_span && objects::index_of(&s, objects::first_of(&s) + distance) != index)) {
        FAIL() << "distance " << distance << " among objects of " << info.size;
      }
      if (++rest == info.size) {
        rest = 0;
        ++index;
      }
    }
  }
}

TEST(size_class, a_magazine_of_grains_has_room_for_the_largest_blocks_of_its_bytes) {
  for (unsigned c = size_classes::count; c < size_classes::all; ++c) {
    const std::size_t largest = size_classes::most_block_bytes(c);
    EXPECT_LE(largest, size_classes::largest_of_grains);
    EXPECT_EQ(largest % class_info(c).size, 0U);
    EXPECT_EQ(class_info(c).magazine * largest, magazine_bytes_of_grains) << class_info(c).size;
  }
}

TEST(size_class, grains_divide_every_object_up_to_fine_end_that_begins_at_a_multiple_of_sixteen) {
  for (unsigned c = 2; c < size_classes::count; ++c) {
    const unsigned grain = size_classes::grain_of(c);
    const std::size_t span_bytes = std::size_t{class_info(c).span_pages} * page_size;
    if (size_classes::is_coarse(c)) {
      EXPECT_EQ(grain, 0U) << class_info(c).size;
      continue;
    }
    ASSERT_TRUE(size_classes::is_grain(grain));
    ASSERT_EQ(class_info(c).size % class_info(grain).size, 0U);
    ASSERT_EQ(span_bytes % class_info(grain).size, 0U);
    ASSERT_LE(span_bytes / class_info(grain).size, size_classes::most_grains);
  }
  EXPECT_EQ(size_classes::grain_of(1), 0U);
}

}  // namespace
}  // namespace tarn
