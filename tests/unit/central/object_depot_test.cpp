// SPDX-License-Identifier: MIT
// object_depot: full magazines, the order of spans by free objects, spare spans, draining.
#include "central/object_depot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tarn {
namespace {

constexpr std::uint16_t slots_in_span = 40;

struct own_span : span {
  own_span() { span::capacity = slots_in_span; }
};

TEST(object_depot, a_new_span_is_spare_and_goes_through_the_lists) {
  object_depot depot;
  own_span s;
  depot.add(&s);
  EXPECT_EQ(depot.spare_count, 1U);
  EXPECT_EQ(depot.best(), &s);
  EXPECT_FALSE(depot.change_free_count(&s, -1));
  EXPECT_EQ(depot.spare_count, 0U);
  EXPECT_EQ(depot.best(), &s);
  EXPECT_FALSE(depot.change_free_count(&s, 1 - slots_in_span));
  EXPECT_EQ(depot.best(), nullptr) << "it has no free object";
  EXPECT_TRUE(depot.change_free_count(&s, slots_in_span));
  EXPECT_EQ(depot.take_spare_span(), &s);
  EXPECT_EQ(depot.take_spare_span(), nullptr);
  EXPECT_EQ(depot.best(), nullptr);
}

TEST(object_depot, spares_have_a_low_mark) {
  object_depot depot;
  own_span s[3];
  for (own_span& each : s) depot.add(&each);
  depot.spare_low.end_period(depot.spare_count);
  depot.change_free_count(depot.best(), -1);
  depot.change_free_count(depot.best(), 1);
  EXPECT_EQ(depot.spare_count, 3U);
  EXPECT_EQ(depot.spare_low.lowest(), 2U);
}

// Compares best() with a search of all spans.
TEST(object_depot, the_fullest_span_is_used_first) {
  object_depot depot;
  own_span spans[12];
  std::mt19937 random(10);
  for (own_span& s : spans) depot.add(&s);
  for (int step = 0; step < 20000; ++step) {
    own_span& s = spans[random() % 12];
    depot.change_free_count(&s, static_cast<int>(random() % (slots_in_span + 1U)) - s.free_objects);
    const span* const best = depot.best();
    const auto spares =
        std::count_if(spans, spans + 12, [](const span& x) { return x.free_objects == slots_in_span; });
    ASSERT_EQ(depot.spare_count, spares);
    const span* fullest = nullptr;
    for (const own_span& x : spans) {
      if (x.free_objects > 0 && (fullest == nullptr || x.free_objects < fullest->free_objects)) fullest = &x;
    }
    ASSERT_EQ(best == nullptr, fullest == nullptr);
    if (best == nullptr) continue;
    ASSERT_GT(best->free_objects, 0);
    // The depot sorts spans by eighths of their capacity only.
    ASSERT_EQ(best->free_objects * 8 / slots_in_span, fullest->free_objects * 8 / slots_in_span);
  }
}

TEST(object_depot, drains_while_much_lies_free_in_spans_partly_used) {
  object_depot depot;
  own_span spans[8];
  const std::size_t size = 64 * kib;
  for (own_span& s : spans) depot.add(&s);
  depot.review(size);
  EXPECT_FALSE(depot.draining.load()) << "drains because of spare spans";
  for (own_span& s : spans) depot.change_free_count(&s, -slots_in_span);
  depot.review(size);
  EXPECT_FALSE(depot.draining.load()) << "drains though no object is free";
  for (own_span& s : spans) depot.change_free_count(&s, slots_in_span / 2);
  depot.review(size);
  EXPECT_TRUE(depot.draining.load());
  depot.review(8);
  EXPECT_FALSE(depot.draining.load()) << "drains because of few bytes";
  depot.review(size);
  for (own_span& s : spans) depot.change_free_count(&s, -slots_in_span / 2);
  depot.review(size);
  EXPECT_FALSE(depot.draining.load());
}

}  // namespace
}  // namespace tarn
