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

memory_row row_of(std::uint64_t time_ns, double live, double kept, double mapped = 0) {
  memory_row row{.time_ns = time_ns, .live = live, .kept = kept, .mapped = mapped};
  row.resident_bytes = row.sum();
  return row;
}

std::uint64_t time_of_peak(std::vector<memory_row> rows) {
  const memory_history history{std::move(rows), {}};
  return history.highest()->time_ns;
}

TEST(memory_split, freed_memory_that_stays_resident_is_not_the_peak) {
  EXPECT_EQ(time_of_peak({row_of(1, 10, 2), row_of(2, 50, 13), row_of(3, 0, 66)}), 2U);
}

TEST(memory_split, the_live_peak_counts_not_what_was_resident_later) {
  EXPECT_EQ(time_of_peak({row_of(1, 60, 5), row_of(2, 50, 100), row_of(3, 55, 200)}), 1U);
}

// In mode faults, no block is known.
TEST(memory_split, where_no_block_is_known_what_is_resident_counts) {
  EXPECT_EQ(time_of_peak({row_of(1, 0, 5, 9), row_of(2, 0, 100, 7), row_of(3, 0, 20, 8)}), 2U);
}

TEST(memory_split, memory_that_malloc_keeps_makes_the_peak_if_as_much_is_in_use) {
  EXPECT_EQ(time_of_peak({row_of(1, 100, 10), row_of(2, 100, 900), row_of(3, 90, 700)}), 2U);
}

TEST(memory_split, the_last_of_equal_rows) {
  EXPECT_EQ(time_of_peak({row_of(1, 50, 1, 7), row_of(2, 50, 1, 7), row_of(3, 40, 1, 7)}), 2U);
}

}  // namespace
}  // namespace tarn::profiler
