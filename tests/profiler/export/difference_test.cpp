// SPDX-License-Identifier: MIT
// Differences of profiles, their margins (by simulation), and the limits of `tarn diff --fail-if`.
#include "profiler/export/difference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/profiler/analyze/small_program.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

TEST(difference, of_a_profile_and_itself_is_nothing) {
  const profile p = synthetic_profile();
  const difference changes = difference::between(p, p);
  for (const change& total : changes.totals) EXPECT_EQ(total.amount(), 0);
  for (const site_change& one : changes.sites) {
    for (const change& value : one.values) EXPECT_EQ(value.amount(), 0);
  }
  EXPECT_TRUE(exceeded(changes, change_limit::parse("site.cost>0%")).empty());
}

TEST(difference, sites_match_by_names_not_by_lines_and_addresses) {
  profile before = synthetic_profile(), after = before;
  for (stack_node& node : after.stacks) node.address += node.address == 0 ? 0 : 0x100000;
  after.symbols.clear();
  for (const auto& [address, frames] : before.symbols) {
    auto moved = frames;
    for (source_frame& frame : moved) frame.line += 7;
    after.symbols[address + 0x100000] = moved;
  }
  // Only sites without symbols count as other sites.
  double moved = 0;
  for (const site_change& one : difference::between(before, after).sites)
    moved += std::abs(one.values[0].amount());
  EXPECT_LT(moved, 0.2 * cost_of_all(before).total());
}

TEST(difference, code_without_names_is_one_place_for_each_file) {
  small_program program;
  for (const char* caller : {"first", "second"})
    program.strip(program.add({"x", caller, "main"}, 100, 2000), "/nowhere/libfew.so.1");
  const difference changes = difference::between(program.p, program.p);
  ASSERT_EQ(changes.places.size(), 1U);
  EXPECT_EQ(changes.places[0].function, "?? (libfew.so.1)");
}

TEST(difference, sites_that_are_new_or_gone_exceed_limits) {
  profile before = synthetic_profile(), after = before;
  after.sites.erase(after.sites.begin());
  difference changes = difference::between(before, after);
  EXPECT_EQ(exceeded(changes, change_limit::parse("site.cost<-99%")).size(), 1U);
  EXPECT_EQ(exceeded(changes, change_limit::parse("cost<-10%")).size(), 1U);
  EXPECT_TRUE(exceeded(changes, change_limit::parse("cost>-90%")).size() == 1U);
  changes = difference::between(after, before);
  const auto sentences = exceeded(changes, change_limit::parse("site.bytes>+20%"));
  ASSERT_EQ(sentences.size(), 1U);
  EXPECT_NE(sentences[0].find("is new"), std::string::npos);
}

TEST(difference, limits_in_units) {
  profile before, after;
  before.sites.resize(1);
  after.sites.resize(1);
  before.sites[0].figures.bytes = 100 << 20;
  after.sites[0].figures.bytes = 164 << 20;
  after.sites[0].figures.malloc_ns = 3e6;
  const difference changes = difference::between(before, after);
  const auto holds = [&changes](const char* text) {
    return !exceeded(changes, change_limit::parse(text)).empty();
  };
  EXPECT_TRUE(holds("bytes>+63M"));
  EXPECT_FALSE(holds("bytes>+64M"));
  EXPECT_FALSE(holds("bytes > 0.0625G"));
  EXPECT_TRUE(holds("bytes>60%"));
  EXPECT_FALSE(holds("bytes>64%"));
  EXPECT_TRUE(holds("malloc>2.9ms"));
  EXPECT_FALSE(holds("malloc>3000us"));
  EXPECT_TRUE(holds("cost>1000%"));  // it was 0 before
  EXPECT_FALSE(holds("peak>0%"));
}

using side = difference_builder::side;

// A recording of a program that takes `mean_ns` in malloc, give or take 3 %, in ten sites.
profile recording_of(std::mt19937& random, double mean_ns, double sampling_variance = 0) {
  std::normal_distribution<double> around(1, 0.03);
  profile p;
  p.stacks.resize(11);
  for (std::uint32_t index = 0; index < 10; ++index) {
    p.stacks[index + 1] = {0, 0x1000 + index};
    p.symbols[0x1000 + index] = {{"place" + std::to_string(index), "", 0, false}};
    site one;
    one.stack = index + 1;
    one.figures.malloc_ns = mean_ns / 10 * around(random);
    one.figures.malloc_variance = sampling_variance;
    p.sites.push_back(one);
  }
  return p;
}

difference compare_means(std::mt19937& random, double before_ns, double after_ns, int recordings) {
  const auto count = static_cast<std::size_t>(recordings);
  difference_builder builder(count, count);
  for (int index = 0; index < recordings; ++index) {
    profile before = recording_of(random, before_ns), after = recording_of(random, after_ns);
    builder.add(side::before, before);
    builder.add(side::after, after);
  }
  return builder.take();
}

TEST(difference, of_a_program_and_itself_rarely_exceeds_a_limit) {
  std::mt19937 random(1);
  int totals = 0, sites = 0;
  for (int pair = 0; pair < 400; ++pair) {
    const difference changes = compare_means(random, 1e9, 1e9, 5);
    totals += exceeded(changes, change_limit::parse("cost>+0%")).empty() ? 0 : 1;
    sites += exceeded(changes, change_limit::parse("site.cost>+0%")).empty() ? 0 : 1;
  }
  // Each pair exceeds the limit by chance with probability 1/40: above a 95 % interval. So 10 are expected.
  EXPECT_LE(totals, 20);
  EXPECT_LE(sites, 20);
  EXPECT_GE(totals + sites, 1) << "no chance result in 800: the interval is too wide";
}

TEST(difference, a_tenth_more_is_found) {
  std::mt19937 random(2);
  int found = 0, found_sites = 0;
  for (int pair = 0; pair < 100; ++pair) {
    const difference changes = compare_means(random, 1e9, 1.1e9, 5);
    found += exceeded(changes, change_limit::parse("cost>+5%")).empty() ? 0 : 1;
    found_sites += exceeded(changes, change_limit::parse("site.cost>+0%")).empty() ? 0 : 1;
  }
  EXPECT_GE(found, 98);
  EXPECT_GE(found_sites, 95);
}

TEST(difference, one_recording_a_side_has_a_wide_margin) {
  std::mt19937 random(3);
  const difference changes = compare_means(random, 1e9, 1.1e9, 1);
  EXPECT_FALSE(changes.totals[0].is_significant());
  EXPECT_TRUE(exceeded(changes, change_limit::parse("cost>+5%")).empty());
  EXPECT_TRUE(compare_means(random, 1e9, 1.3e9, 1).totals[0].is_significant());
}

// A recording in which every figure is off by the same factor, of this standard deviation.
profile scattered(std::mt19937& random, double mean_ns, double scatter) {
  profile p = recording_of(random, mean_ns);
  p.sites.resize(1);
  p.sites[0].figures.malloc_ns = mean_ns * std::normal_distribution<double>(1, scatter)(random);
  return p;
}

TEST(difference, says_how_many_recordings_find_a_change_of_five_percent) {
  EXPECT_EQ(recordings_to_find(0, 1), 0U);
  EXPECT_EQ(recordings_to_find(1, 0), 2U);
  EXPECT_EQ(recordings_to_find(0.05, 10), 0U) << "more than anybody records";
  std::mt19937 random(6);
  constexpr double scatter = 0.04;
  const std::size_t needed = recordings_to_find(small_change, scatter);
  EXPECT_GE(needed, 12U);  // 2 * ((1.96 + 1.28) * 4 / 5)^2 = 13.4, and a bound above 1.96
  EXPECT_LE(needed, 16U);
  int found = 0;
  for (int pair = 0; pair < 400; ++pair) {
    difference_builder builder(needed, needed);
    for (std::size_t index = 0; index < needed; ++index) {
      profile before = scattered(random, 1e9, scatter), after = scattered(random, 1.05e9, scatter);
      builder.add(side::before, before);
      builder.add(side::after, after);
    }
    found += builder.take().totals[0].is_significant() ? 1 : 0;
  }
  EXPECT_NEAR(found, 360, 24);
}

TEST(difference, knows_from_few_recordings_about_how_many_are_needed) {
  std::mt19937 random(7);
  double sum = 0;
  constexpr int pairs = 200;
  for (int pair = 0; pair < pairs; ++pair) {
    difference_builder builder(5, 5);
    for (int index = 0; index < 5; ++index) {
      profile before = scattered(random, 1e9, 0.04), after = scattered(random, 1e9, 0.04);
      builder.add(side::before, before);
      builder.add(side::after, after);
    }
    const difference changes = builder.take();
    sum += static_cast<double>(changes.recordings_needed[0]);
    EXPECT_EQ(changes.recordings_needed[4], 0U) << "allocations: there were none";
  }
  EXPECT_NEAR(sum / pairs, static_cast<double>(recordings_to_find(small_change, 0.04)), 2);
}

// Timed calls that take `timed_ns`, give or take 3 %, where malloc really takes `factor` times that, and 50 samples of
// the clock.
profile calibrated(std::mt19937& random, double timed_ns, double factor) {
  profile p = recording_of(random, timed_ns);
  constexpr double clock_error = 0.14;
  const double found = factor * std::normal_distribution<double>(1, clock_error)(random);
  double all = 0;
  for (site& one : p.sites) all += one.figures.malloc_ns *= found;
  p.malloc_time = {};
  p.malloc_time.clock_part = 0.9;
  p.malloc_time.factor = found;
  p.malloc_time.clock_error = clock_error;
  p.malloc_time.ns = p.malloc_time.small_ns = all;
  return p;
}

difference compare_calibrated(std::mt19937& random, double before_ns, double after_ns, double factor_after) {
  std::vector<profile> before, after;
  difference_builder builder(5, 5);
  for (int index = 0; index < 5; ++index) {
    before.push_back(calibrated(random, before_ns, 1.2));
    after.push_back(calibrated(random, after_ns, factor_after));
    builder.add_times(side::before, before.back());
    builder.add_times(side::after, after.back());
  }
  for (profile& each : before) builder.add(side::before, each);
  for (profile& each : after) builder.add(side::after, each);
  return builder.take();
}

TEST(difference, few_samples_of_the_clock_do_not_hide_a_tenth_more_calls) {
  std::mt19937 random(8);
  int false_alarms = 0, found = 0;
  for (int pair = 0; pair < 200; ++pair) {
    false_alarms += compare_calibrated(random, 1e9, 1e9, 1.2).totals[0].is_significant() ? 1 : 0;
    const change total = compare_calibrated(random, 1e9, 1.1e9, 1.2).totals[0];
    found += total.is_significant() && total.amount() > 0 ? 1 : 0;
  }
  EXPECT_LE(false_alarms, 20);  // 10 of them by the interval
  EXPECT_GE(found, 180);
}

TEST(difference, the_clock_decides_where_the_timed_calls_err_differently) {
  std::mt19937 random(9);
  const change total = compare_calibrated(random, 1e9, 1e9, 0.6).totals[0];
  EXPECT_NEAR(total.share(), -0.5, 0.15);
  EXPECT_TRUE(total.is_significant());
}

// A recording in mode sample of a million calls at each of ten places, give or take 2 %, at `price_ns` each, give or take
// 20 % in each recording: other programs were in the way.
profile of_disturbed_calls(std::mt19937& random, double calls, double price_ns, double processor_ns) {
  profile p = recording_of(random, 1);
  p.mode = profile_mode::sample;
  const double price = price_ns * std::normal_distribution<double>(1, 0.2)(random);
  for (site& one : p.sites) {
    const double taken = calls * std::normal_distribution<double>(1, 0.02)(random);
    one.figures.allocations = taken;
    one.figures.allocations_variance = 0.02 * 0.02 * calls * calls;
    one.figures.malloc_ns = taken * price * std::normal_distribution<double>(1, 0.1)(random);
    p.malloc_time.ns += one.figures.malloc_ns;
  }
  p.malloc_time.clock_error = 0.2;
  p.counters.emplace_back().user_ns = processor_ns;
  fit_costs(p);
  return p;
}

difference compare_disturbed(std::mt19937& random, double calls_after, double price_after, int recordings = 5,
                             std::pair<double, double> processor = {}) {
  std::vector<profile> before, after;
  const auto count = static_cast<std::size_t>(recordings);
  difference_builder builder(count, count);
  for (int index = 0; index < recordings; ++index) {
    before.push_back(of_disturbed_calls(random, 1e6, 20, processor.first));
    after.push_back(of_disturbed_calls(random, calls_after, price_after, processor.second));
    builder.add_times(side::before, before.back());
    builder.add_times(side::after, after.back());
  }
  for (profile& each : before) builder.add(side::before, each);
  for (profile& each : after) builder.add(side::after, each);
  return builder.take();
}

TEST(difference, a_tenth_more_calls_are_found_while_their_times_are_disturbed) {
  std::mt19937 random(10);
  int false_alarms = 0, found = 0, common = 0;
  for (int pair = 0; pair < 200; ++pair) {
    const difference same = compare_disturbed(random, 1e6, 20);
    common += same.has_one_price ? 1 : 0;
    false_alarms += same.totals[1].is_significant() ? 1 : 0;
    const change total = compare_disturbed(random, 1.1e6, 20).totals[1];
    found += total.is_significant() && std::abs(total.share() - 0.1) < 0.05 ? 1 : 0;
  }
  EXPECT_GE(common, 190);
  EXPECT_LE(false_alarms, 20);
  EXPECT_GE(found, 190);
}

TEST(difference, more_processor_time_is_no_change_of_the_time_in_malloc) {
  std::mt19937 random(14);
  const difference changes = compare_disturbed(random, 1e6, 20, 5, {1.5e8, 1.8e8});
  ASSERT_TRUE(changes.has_one_price);
  EXPECT_NEAR(changes.totals[1].share(), changes.totals[4].share(), 0.001) << "allocations";
  EXPECT_LE(changes.totals[1].before, 1.8e8) << "the program took no longer";
}

TEST(difference, another_price_of_a_call_is_found) {
  std::mt19937 random(11);
  const difference changes = compare_disturbed(random, 1e6, 50);
  EXPECT_FALSE(changes.has_one_price);
  EXPECT_TRUE(changes.call_price.is_significant());
  EXPECT_NEAR(changes.call_price.share(), 1.5, 1);
  EXPECT_NEAR(changes.totals[1].share(), 1.5, 1);
  EXPECT_GT(changes.totals[1].margin, 0.1 * changes.totals[1].before) << "its price is not known better";
}

TEST(difference, says_how_many_recordings_another_price_takes) {
  std::mt19937 random(12);
  const difference changes = compare_disturbed(random, 1e6, 20, 40);
  const std::size_t needed = recordings_to_find(small_change, 0.2, price_confidence);
  EXPECT_NEAR(static_cast<double>(changes.recordings_needed_for_price), static_cast<double>(needed),
              0.35 * static_cast<double>(needed));
  EXPECT_LE(changes.recordings_needed[1], 10U) << "another number of calls takes fewer";
}

TEST(difference, one_recording_a_side_keeps_its_own_price) {
  std::mt19937 random(13);
  const difference changes = compare_disturbed(random, 1e6, 20, 1);
  EXPECT_FALSE(changes.has_one_price);
  EXPECT_EQ(changes.call_price.before, 0);
}

TEST(difference, equal_recordings_have_the_margin_of_their_samples) {
  std::mt19937 random(4);
  const profile before = recording_of(random, 1e9, 1e12);
  profile after = before;
  for (site& one : after.sites) one.figures.malloc_ns *= 1.002;
  difference_builder builder(4, 4);
  for (int index = 0; index < 4; ++index) {
    profile first = before, second = after;
    builder.add(side::before, first);
    builder.add(side::after, second);
  }
  const change total = builder.take().totals[0];
  // Standard error: ten sites of 1 ms each, on either side, in four recordings.
  EXPECT_NEAR(total.margin, 1.96 * std::sqrt(2 * 10 * 1e12 / 4), 1e4);
  EXPECT_FALSE(total.is_significant());
}

TEST(difference, the_clock_narrows_the_margin_of_the_sum) {
  std::mt19937 random(5);
  profile before = recording_of(random, 1e9, 1e12);
  before.malloc_time.clock_part = 0.9;
  before.malloc_time.clock_error = 0.01;
  difference_builder builder(4, 4);
  for (int index = 0; index < 4; ++index) {
    profile first = before, second = before;
    builder.add(side::before, first);
    builder.add(side::after, second);
  }
  const change total = builder.take().totals[1];
  ASSERT_EQ(metrics()[1].name, "malloc");
  double sum = 0;
  for (const site& each : before.sites) sum += each.figures.malloc_ns;
  // One tenth of the sum comes from the timed calls of ten sites; the clock's error is common to all sites.
  const double variance = 0.1 * 0.1 * 10 * 1e12 + 0.01 * 0.01 * sum * sum;
  EXPECT_NEAR(total.margin, 1.96 * std::sqrt(2 * variance / 4), 1e4);
}

TEST(difference, all_recordings_use_the_prices_of_the_first) {
  profile before, after;
  before.other_faults = after.other_faults = 1000;
  before.prices.fault = 500;
  after.prices.fault = 5000;
  const difference changes = difference::between(before, after);
  EXPECT_DOUBLE_EQ(changes.totals[0].before, 500e3);
  EXPECT_DOUBLE_EQ(changes.totals[0].after, 500e3);
}

TEST(difference, margins_are_shown_in_percent_of_the_value_before) {
  const auto shown = [](double before, double margin) { return change{before, 0, margin}.margin_text(); };
  EXPECT_EQ(shown(0, 5), "");
  EXPECT_EQ(shown(100, 0), "exact");
  EXPECT_EQ(shown(100, 2.44), "± 2.4 %");
  EXPECT_EQ(shown(100, 99.9), "± 99.9 %");
  EXPECT_EQ(shown(100, 130), "± >100 %");  // so few samples tell nothing
}

TEST(difference, malformed_limits_are_refused) {
  for (const char* text :
       {"", "cost", ">5%", "cost>", "cost>%", "cost>5%%", "cost>5x", "cost>inf", "cost>nan", "cost>1e999",
        "site.>5%", "sites.cost>5%", "cost=5%", "cost>>5%", "bytes>5s", "faults>5K"}) {
    EXPECT_THROW(change_limit::parse(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace tarn::profiler
