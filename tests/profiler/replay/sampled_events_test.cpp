// SPDX-License-Identifier: MIT
// Samples expanded to the blocks that they stand for: how many, when, and for how long.
#include "profiler/replay/sampled_events.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tarn::profiler {
namespace {

constexpr std::uint64_t always = 65536;
constexpr std::size_t many = 1'000'000;

event_row sample_at(std::uint64_t time, std::uint64_t block, std::uint64_t size, std::uint32_t stack = 1) {
  event_row row;
  row.time = time;
  row.kind = event_malloc;
  row.block = block;
  row.size = size;
  row.stack = stack;
  return row;
}

event_row free_at(std::uint64_t time, std::uint64_t block) {
  event_row row;
  row.time = time;
  row.kind = event_free;
  row.block = block;
  row.thread = 3;
  return row;
}

// The mean distance of samples at which a block of 1,000 bytes stands for `weight` blocks.
double distance_for(double weight) { return -1000 / std::log(1 - 1 / weight); }

std::vector<double> begin_times(const std::vector<event_row>& rows) {
  std::vector<double> times;
  for (const event_row& row : rows) {
    if (row.kind == event_malloc) times.push_back(static_cast<double>(row.time));
  }
  return times;
}

TEST(sampled_events, what_is_always_recorded_stands_for_itself) {
  EXPECT_TRUE(expand_samples({}, 1e6, always, many).empty());
  for (const double distance : {0.0, 1e6}) {
    const auto rows = expand_samples({sample_at(1, 7, always), free_at(2, 7)}, distance, always, many);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].time, 1U);
    EXPECT_EQ(rows[1].thread, 3U);
  }
  EXPECT_EQ(expand_samples({sample_at(1, 7, 8)}, 0, always, many).size(), 1U) << "no distance is known";
}

TEST(sampled_events, parts_of_blocks_are_carried_over_to_the_next_sample) {
  const auto rows = expand_samples({sample_at(1, 1, 1000), sample_at(2, 2, 1000), sample_at(3, 3, 1000)},
                                   distance_for(1.6), always, many);
  EXPECT_EQ(rows.size(), 4U) << "three times 1.6";
}

TEST(sampled_events, copies_begin_evenly_where_no_other_sample_is_nearer) {
  const std::vector<event_row> samples = {sample_at(0, 9, always, 2), sample_at(100, 1, 1000),
                                          sample_at(200, 2, 1000), sample_at(1000, 8, always, 2)};
  const auto times = begin_times(expand_samples(samples, distance_for(50.01), always, many));
  ASSERT_EQ(times.size(), 2 + 2 * 50U);
  // From 50 to 150 and from 150 to 250, a block each second.
  for (std::size_t copy = 0; copy < 100; ++copy)
    EXPECT_NEAR(times[1 + copy], 50 + 2 * (static_cast<double>(copy) + 0.5), 1);
}

TEST(sampled_events, samples_of_other_call_paths_do_not_count) {
  const std::vector<event_row> samples = {sample_at(0, 9, always, 2), sample_at(100, 1, 1000),
                                          sample_at(110, 2, 1000, 5), sample_at(300, 3, 1000),
                                          sample_at(1000, 8, always, 2)};
  const auto times = begin_times(expand_samples(samples, distance_for(100.01), always, many));
  EXPECT_EQ(std::count_if(times.begin(), times.end(), [](double time) { return time > 0 && time < 200; }),
            200);
}

TEST(sampled_events, each_copy_lives_as_long_as_its_sample) {
  const std::vector<event_row> samples = {sample_at(0, 9, always, 2), sample_at(1000, 1, 1000),
                                          free_at(1010, 1),           sample_at(3000, 2, 1000),
                                          free_at(3010, 2),           sample_at(9000, 8, always, 2)};
  std::map<std::uint64_t, std::uint64_t> begun;
  std::size_t ended = 0;
  for (const event_row& row : expand_samples(samples, distance_for(20.01), always, many)) {
    if (row.kind == event_malloc) begun.emplace(row.block, row.time);
    if (row.kind != event_free) continue;
    ++ended;
    ASSERT_TRUE(begun.contains(row.block));
    EXPECT_EQ(row.time, begun[row.block] + 10);
    EXPECT_EQ(row.thread, 3U);
  }
  EXPECT_EQ(begun.size(), 2 + 2 * 20U) << "each has a number of its own";
  EXPECT_EQ(ended, 2 * 20U);
}

TEST(sampled_events, frees_of_unknown_blocks_and_mappings_are_left_out) {
  event_row mapping = sample_at(2, 5, 1 << 20);
  mapping.kind = event_mmap;
  EXPECT_TRUE(expand_samples({free_at(1, 4), mapping}, 1e6, always, many).empty());
}

TEST(sampled_events, a_sample_that_grows_to_a_large_block_ends_and_another_begins) {
  event_row grown = sample_at(20, 2, always);
  grown.kind = event_realloc;
  grown.extra = 1;
  std::map<int, int> kinds;
  for (const event_row& row :
       expand_samples({sample_at(10, 1, 1000), grown}, distance_for(5.01), always, many))
    ++kinds[row.kind];
  EXPECT_EQ(kinds, (std::map<int, int>{{event_malloc, 6}, {event_free, 5}}));
}

}  // namespace
}  // namespace tarn::profiler
