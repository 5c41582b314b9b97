// SPDX-License-Identifier: MIT
// The row of a memory history that is shown as the peak.
#include "profiler/model/memory_split.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(memory_split, the_highest_row_is_the_one_that_has_the_first_parts) {
  memory_history history;
  EXPECT_EQ(history.highest(), nullptr);
  for (const auto& [time, resident] : {std::pair{1U, 10}, {2U, 30}, {3U, 30}, {4U, 20}}) {
    history.rows.emplace_back().time_ns = time;
    history.rows.back().resident_bytes = resident;
  }
  EXPECT_EQ(history.highest()->time_ns, 3U) << "the last of equal ones";
  history.parts = {{2, "live", "", 0, 1, 0}, {4, "live", "", 0, 1, 0}};
  EXPECT_EQ(history.highest()->time_ns, 2U) << "as the collector has chosen";
  history.parts[0].time_ns = 99;
  EXPECT_EQ(history.highest()->time_ns, 3U) << "of a file without that row";
}

}  // namespace
}  // namespace tarn::profiler
