// SPDX-License-Identifier: MIT
#include "base/low_mark.hpp"

#include <gtest/gtest.h>

namespace tarn {
namespace {

TEST(low_mark, idle_is_what_was_not_needed_in_the_period) {
  low_mark mark;
  EXPECT_EQ(mark.end_period(5), 0U) << "all five are new";
  mark.note(4);
  mark.note(3);
  mark.note(4);  // one came back, and was taken again
  EXPECT_EQ(mark.lowest(), 3U);
  EXPECT_EQ(mark.end_period(5), 3U);
  EXPECT_EQ(mark.end_period(5), 5U) << "none was taken";
}

}  // namespace
}  // namespace tarn
