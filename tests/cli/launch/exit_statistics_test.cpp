// SPDX-License-Identifier: MIT
// Parsing of the lines that libtarn writes at exit (TARN_STATS).
#include <gtest/gtest.h>

#include "cli/launch/exit_statistics.hpp"

namespace tarn::cli {
namespace {

TEST(exit_statistics, sums_over_processes_and_counts_damage) {
  const exit_statistics sums = parse_exit_statistics(
      "{\"returned\": 4096, \"pid\": 1}\n"
      "{\"returned\": 8192, \"pid\": 2}\n"
      "{\"returned\": \"many\"}\n"
      "{\"pid\": 3}\n"
      "{\"retur");
  EXPECT_EQ(sums.processes, 2U);
  EXPECT_EQ(sums.returned, 12288U);
  EXPECT_EQ(sums.damaged_lines, 3U);
  EXPECT_EQ(parse_exit_statistics("").processes, 0U);
  EXPECT_EQ(read_exit_statistics("/nonexistent").processes, 0U);
}

TEST(exit_statistics, sums_locks_of_one_name_and_size) {
  const exit_statistics sums = parse_exit_statistics(
      "{\"returned\": 0, \"locks\": [{\"name\": \"page_heap\", \"acquisitions\": 1},"
      " {\"name\": \"depot\", \"object_size\": 64, \"acquisitions\": 4, \"longest_held_ns\": 9}]}\n"
      "{\"returned\": 0, \"locks\": [{\"name\": \"depot\", \"object_size\": 64, \"acquisitions\": 3, \"waits\": 2,"
      " \"longest_held_ns\": 5}, {\"name\": \"depot\", \"object_size\": 80, \"acquisitions\": 2}, {}, 7]}\n"
      "{\"returned\": 0, \"locks\": \"none\"}\n"
      "{\"returned\": 0}\n");
  EXPECT_EQ(sums.processes, 4U);
  const nlohmann::json wanted = nlohmann::json::parse(
      "[{\"name\": \"depot\", \"object_size\": 64, \"acquisitions\": 7, \"longest_held_ns\": 9, \"waits\": 2},"
      " {\"name\": \"depot\", \"object_size\": 80, \"acquisitions\": 2},"
      " {\"name\": \"page_heap\", \"acquisitions\": 1}]");
  EXPECT_EQ(sums.locks, wanted) << sums.locks.dump(1);
}

}  // namespace
}  // namespace tarn::cli
