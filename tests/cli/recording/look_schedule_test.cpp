// SPDX-License-Identifier: MIT
#include "cli/recording/look_schedule.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tarn::cli {
namespace {

// The times of the looks of so many seconds, each of which takes so much.
std::vector<double> looks(double seconds, double taken) {
  std::vector<double> times;
  constexpr double begin = 1000;
  look_schedule schedule(begin);
  for (double now = begin; now < begin + seconds; now += 0.01) {
    if (!schedule.is_due(now)) continue;
    times.push_back(now - begin);
    now += taken;
    schedule.note_look(now, taken);
  }
  return times;
}

// Longest, as a part of the time that has passed.
double longest_part(const std::vector<double>& times, double from) {
  double longest = 0;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (times[i] >= from) longest = std::max(longest, (times[i] - times[i - 1]) / times[i]);
  return longest;
}

double longest_gap(const std::vector<double>& times, double from) {
  double longest = 0;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (times[i - 1] >= from) longest = std::max(longest, times[i] - times[i - 1]);
  return longest;
}

TEST(look_schedule, the_first_seconds_are_seen_though_a_look_is_dear) {
  // Each eighth of the time has a look.
  EXPECT_LT(longest_part(looks(5, 0.02), 1), 0.11);
  EXPECT_LT(longest_part(looks(1000, 0.003), 1), 0.11);
  EXPECT_LE(longest_gap(looks(1000, 0.0001), 0), 0.52);
}

TEST(look_schedule, looks_take_a_small_part_of_the_time) {
  for (const double taken : {0.0001, 0.003, 0.03, 0.05}) {
    const double count = static_cast<double>(looks(1000, taken).size());
    EXPECT_LE(count * taken, look_schedule::begin_seconds + 1000 * look_schedule::look_part + taken) << taken;
    EXPECT_GE(count, 1000 / (look_schedule::longest_rest + 2 * taken)) << taken;
  }
}

TEST(look_schedule, the_longest_look_does_not_end_the_watching) {
  EXPECT_LE(longest_gap(looks(100, 2), 0), look_schedule::longest_rest + 2 + 0.1);
}

TEST(look_schedule, a_cheap_past_pays_for_few_dear_looks) {
  look_schedule schedule(0);
  double now = 0;
  for (; now < 10000; now += 1) schedule.note_look(now, 0.0001);
  double taken = 0;
  for (const double end = now + 30; now < end; now += 0.01) {
    if (!schedule.is_due(now)) continue;
    schedule.note_look(now, 0.1);
    taken += 0.1;
  }
  EXPECT_LE(taken, look_schedule::begin_seconds + 30 * look_schedule::look_part + 6 * 0.1);
}

}  // namespace
}  // namespace tarn::cli
