// SPDX-License-Identifier: MIT
// central_occupancy: what is told of a span and of its class agrees with what was taken.
#include <gtest/gtest.h>

#include <vector>

#include "engine/instance.hpp"
#include "slots/central.hpp"
#include "slots/free_mark.hpp"

namespace tarn {
namespace {

constexpr unsigned observed_class = 40;

TEST(central_occupancy, counts_taken_objects) {
  if constexpr (hardened_build) GTEST_SKIP() << "its objects must be zeroed before they go back";
  central& c = engine::central_tier;
  const class_depots::class_figures before = c.depots().figures_of(observed_class);
  const std::size_t per_span = class_info(observed_class).objects;
  std::vector<void*> objects;
  for (std::size_t i = 0; i < 3 * per_span; ++i) objects.push_back(c.take_one(observed_class));
  const class_depots::class_figures full = c.depots().figures_of(observed_class);
  EXPECT_EQ(full.taken, before.taken + 3 * per_span);
  EXPECT_GE(full.spans, 3U);
  class_depots::occupancy out{};
  const span& first = *c.map().span_of(address_of(objects[0]));
  const span& second = *c.map().span_of(address_of(objects[1]));
  ASSERT_TRUE(c.depots().occupancy_of(first, objects[0], out));
  EXPECT_EQ(out.objects, per_span);
  EXPECT_EQ(out.bytes, span_bytes(observed_class));
  EXPECT_EQ(class_depots::is_full(first), out.taken == out.objects);
  const std::size_t taken = out.taken;
  free_mark::set(c.map(), observed_class, objects[0]);
  c.flush(observed_class, objects.data(), 1);
  ASSERT_TRUE(c.depots().occupancy_of(second, objects[1], out));
  EXPECT_EQ(c.depots().figures_of(observed_class).taken, full.taken - 1);
  EXPECT_LE(out.taken, taken);
  EXPECT_LE(out.partial_taken, out.partial_objects);
  EXPECT_GE(c.depots().figures_of(observed_class).with_room, 1U);
  for (std::size_t i = 1; i < objects.size(); ++i) {
    free_mark::set(c.map(), observed_class, objects[i]);
    c.flush(observed_class, &objects[i], 1);
  }
  c.release_surplus(observed_class);
  EXPECT_EQ(c.depots().figures_of(observed_class).taken, before.taken);
}

TEST(central_occupancy, knows_only_objects) {
  class_depots::occupancy out{};
  int on_stack = 0;
  const span free_one;
  EXPECT_FALSE(engine::central_tier.depots().occupancy_of(free_one, &on_stack, out));
}

}  // namespace
}  // namespace tarn
