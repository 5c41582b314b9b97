// SPDX-License-Identifier: MIT
// recycler_core: its invariants.
#include "fronts/recyclers/recycler_core.hpp"

#include <gtest/gtest.h>

#include "broken_invariant.hpp"
#include "engine/engine.hpp"

namespace tarn {

class recycler_core_test_access {
 public:
  static recycler_magazine& fresh(recycler_core& recycler) { return *recycler.fresh_; }
};

namespace {

TEST(recycler_core, finds_a_broken_invariant) {
  engine::attach_thread();
  const tarn_recycler_options request{.size = sizeof(tarn_recycler_options),
                                      .name = "",
                                      .name_length = 0,
                                      .limit = 0,
                                      .limit_objects = 0,
                                      .cycle_ms = 0,
                                      .destroy = nullptr,
                                      .context = nullptr};
  recycler_core recycler(request, "");
  int object = 0;
  ASSERT_TRUE(recycler.give_one(&object, 100));
  recycler.validate_locked();
  recycler_magazine& m = recycler_core_test_access::fresh(recycler);
  m.count = 0;
  EXPECT_BROKEN(recycler.validate_locked(), "recycler_core", "empty == empty_count_", &recycler);
  m.count = 2;
  EXPECT_BROKEN(recycler.validate_locked(), "recycler_magazine", "e->object != nullptr && e->paid != 0", &m);
  m.count = 1;
  m.begin()->paid = 101;
  EXPECT_BROKEN(recycler.validate_locked(), "recycler_core",
                "sum.bytes <= budget_.paid_bytes() && sum.objects <= budget_.paid_objects()", &recycler);
  m.begin()->paid = 100;
  EXPECT_EQ(recycler.take_fresh(), &object);
}

}  // namespace
}  // namespace tarn
