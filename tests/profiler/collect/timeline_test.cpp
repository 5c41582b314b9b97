// SPDX-License-Identifier: MIT
// The number of counter rows is limited, and the peak is kept.
#include "profiler/collect/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {
namespace {

// The rows of a process with one short peak, sampled at the intervals that the timeline asks for.
std::vector<counter_row> run_for(std::uint64_t duration_ns, std::uint64_t peak_ns) {
  timeline kept;
  std::vector<counter_row> rows;
  std::uint64_t time = 0;
  bool has_peaked = false;
  for (; time <= duration_ns; time += kept.interval_ns()) {
    counter_row row{.time_ns = time, .resident_bytes = 100};
    if (time >= peak_ns && !has_peaked) {
      row.resident_bytes = 1000;
      has_peaked = true;
    }
    kept.add(rows, row);
  }
  return rows;
}

TEST(timeline, short_runs_have_a_row_each_ten_milliseconds) {
  const auto rows = run_for(400'000'000, 200'000'000);
  EXPECT_EQ(rows.size(), 41U);
}

TEST(timeline, long_runs_are_bounded_and_keep_the_peak) {
  constexpr std::uint64_t day = 86'400'000'000'000;
  const auto rows = run_for(day, day / 3);
  EXPECT_LE(rows.size(), timeline::most_rows);
  EXPECT_GE(rows.size(), timeline::most_rows / 4);
  double most = 0;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    most = std::max(most, rows[index].resident_bytes);
    if (index > 0) {
      EXPECT_GT(rows[index].time_ns, rows[index - 1].time_ns);
    }
  }
  EXPECT_EQ(most, 1000);
  EXPECT_EQ(rows.front().time_ns, 0U);
  EXPECT_GE(rows.back().time_ns, day - day / 1000);
}

// Rows are bounded by a multiple of the logarithm of the duration, and those of the last minutes are all there.
TEST(timeline, the_last_minutes_stay_as_they_were_read) {
  constexpr std::uint64_t hour = 3'600'000'000'000;
  constexpr std::size_t parts = timeline::most_rows / parts_of_history;
  for (const std::uint64_t duration : {10 * hour, 24 * 30 * hour}) {
    auto rows = run_for(duration, duration / 3);
    EXPECT_LE(rows.size(), timeline::most_rows);
    for (std::size_t back = 1; back <= parts; ++back) {
      const std::size_t row = rows.size() - back;
      EXPECT_EQ(rows[row].time_ns - rows[row - 1].time_ns, timeline::longest_interval_ns);
    }
    thin_by_age(rows, parts);
    const double halvings =
        std::log2(static_cast<double>(duration) / (parts * timeline::longest_interval_ns));
    EXPECT_LE(static_cast<double>(rows.size()), parts * (2 + halvings) + 3 * halvings) << duration;
    for (std::size_t row = 1; row < rows.size(); ++row) {
      const std::uint64_t age = duration - rows[row - 1].time_ns;
      EXPECT_LE(rows[row].time_ns - rows[row - 1].time_ns, timeline::longest_interval_ns + 2 * age / parts);
    }
  }
}

TEST(timeline, a_peak_between_two_samples_raises_the_newest_row) {
  timeline kept;
  std::vector<counter_row> rows;
  kept.raise(rows, 100);
  EXPECT_TRUE(rows.empty());
  counter_row row;
  for (const double resident : {100.0, 300.0, 200.0}) {
    row.resident_bytes = resident;
    kept.add(rows, row);
  }
  kept.raise(rows, 300);
  EXPECT_EQ(rows.back().resident_bytes, 200);
  kept.raise(rows, 400);
  EXPECT_EQ(rows.back().resident_bytes, 400);
  EXPECT_EQ(rows[1].resident_bytes, 300);
}

TEST(timeline, finds_a_broken_invariant) {
  timeline kept;
  std::vector<counter_row> rows;
  for (const std::uint64_t time : {1, 2}) {
    counter_row row{.time_ns = time, .resident_bytes = 100};
    kept.add(rows, row);
  }
  kept.validate(rows);
  rows.back().time_ns = 0;
  EXPECT_BROKEN(kept.validate(rows), "timeline", "is_ordered", &kept);
  rows.back().time_ns = 2;
  rows.back().resident_bytes = 101;
  EXPECT_BROKEN(kept.validate(rows), "timeline", "highest_ == highest", &kept);
  rows.resize(timeline::most_rows + 1);
  EXPECT_BROKEN(kept.validate(rows), "timeline", "rows.size() <= most_rows", &kept);
}

}  // namespace
}  // namespace tarn::profiler
