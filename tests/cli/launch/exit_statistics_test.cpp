// SPDX-License-Identifier: MIT
// Parsing of the lines that libtarn writes at exit (TARN_STATS).
#include <gtest/gtest.h>

#include "cli/launch/foreground.hpp"

namespace tarn::cli {
namespace {

TEST(exit_statistics, sums_over_processes_and_leaves_out_damage) {
  const exit_statistics sums = parse_exit_statistics(
      "{\"returned\": 4096, \"pid\": 1}\n"
      "{\"returned\": 8192, \"pid\": 2}\n"
      "{\"returned\": \"many\"}\n"
      "{\"pid\": 3}\n"
      "{\"retur");
  EXPECT_EQ(sums.processes, 2U);
  EXPECT_EQ(sums.returned, 12288U);
  EXPECT_EQ(parse_exit_statistics("").processes, 0U);
  EXPECT_EQ(read_exit_statistics("/nonexistent").processes, 0U);
}

}  // namespace
}  // namespace tarn::cli
