// SPDX-License-Identifier: MIT
#include "profiler/model/growth_marks.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(growth_marks, leave_half_of_the_time_and_have_a_quarter_before_them) {
  growth_marks marks;
  for (std::uint64_t now = 16; now < 100000; ++now) {
    marks.pass(now);
    const std::uint64_t mark = marks.time_ns(now);
    EXPECT_LE(2 * mark, now);
    if (now >= 64) {
      EXPECT_GE(4 * mark + 4, now);
    }
  }
}

TEST(growth_marks, are_the_readings_that_there_were) {
  growth_marks marks;
  EXPECT_TRUE(marks.pass(10));
  EXPECT_EQ(marks.time_ns(15), 0U) << "less than half of the time would follow";
  EXPECT_FALSE(marks.pass(19));
  EXPECT_EQ(marks.used(20), 1U);
  EXPECT_TRUE(marks.pass(50));
  EXPECT_EQ(marks.time_ns(60), 10U);
  EXPECT_EQ(marks.time_ns(100), 50U);
}

}  // namespace
}  // namespace tarn::profiler
