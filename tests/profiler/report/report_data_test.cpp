// SPDX-License-Identifier: MIT
// The report's data: sums, indexes and limits, for synthetic and for damaged profiles.
#include "profiler/report/report_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "profiler/analyze/site_label.hpp"
#include "profiler/report/site_rows.hpp"
#include "tests/profiler/analyze/small_program.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

using nlohmann::json;

std::int64_t sum_of(const json& column) {
  return std::accumulate(column.begin(), column.end(), std::int64_t{0},
                         [](std::int64_t sum, const json& one) { return sum + one.get<std::int64_t>(); });
}

// Every column of sites that has a total adds up to it.
void expect_sums(const json& data) {
  for (const auto& [name, total] : data["totals"].items()) {
    if (!data["sites"].contains(name) || name == "peak_bytes") continue;
    EXPECT_EQ(sum_of(data["sites"][name]), total.get<std::int64_t>()) << name;
  }
}

void expect_cost(const json& data, const profile& p) {
  const cost all = cost_of_all(p);
  EXPECT_NEAR(data["totals"]["malloc_ns"].get<double>(), all.malloc_ns, 1);
  EXPECT_NEAR(data["totals"]["fault_ns"].get<double>(), all.fault_ns, 1);
  EXPECT_NEAR(data["totals"]["unmap_ns"].get<double>(), all.unmap_ns, 1);
}

// All indexes of frames, nodes, strings and sites are valid, and parents come before their children.
void expect_whole(const json& data) {
  const std::size_t nodes = data["stacks"]["parent"].size();
  const std::size_t frames = data["frames"]["function"].size();
  for (std::size_t node = 1; node < nodes; ++node) {
    ASSERT_LT(data["stacks"]["parent"][node].get<std::size_t>(), node);
    ASSERT_LT(data["stacks"]["frame"][node].get<std::size_t>(), frames);
  }
  for (const char* name : {"function", "file", "module"}) {
    for (const json& text : data["frames"][name]) ASSERT_LT(text.get<std::size_t>(), data["strings"].size());
  }
  for (const auto& [name, column] : data["sites"].items()) {
    EXPECT_EQ(column.size(), data["sites"]["kind"].size()) << name;
  }
  for (const json& stack : data["sites"]["stack"]) ASSERT_LT(stack.get<std::size_t>(), nodes);
}

TEST(report_data, slices_are_of_rows_whether_their_sites_are_named_or_summed_up) {
  const profile p = synthetic_profile();
  event_slices slices;
  slices.ends_ns = {10, 20};
  for (const site& one : p.sites) slices.cells.push_back({one.stack, one.stack % 2, 1, 10, -5});
  slices.cells.push_back({4'000'000, 0, 1, 10, 5});  // of no site
  EXPECT_TRUE(report_data(p, {})["slices"].is_null());
  for (const std::size_t named : {20'000U, 10U}) {
    report_limits limits{.sites = {.least = 0, .most = named}, .most_places = 5};
    const json data = report_data(p, {}, limits, slices);
    const json& found = data["slices"];
    EXPECT_EQ(sum_of(found["allocations"]), static_cast<std::int64_t>(p.sites.size()));
    EXPECT_EQ(sum_of(found["grown"]), -5 * static_cast<std::int64_t>(p.sites.size()));
    for (const json& row : found["row"]) {
      ASSERT_LT(row.get<std::size_t>(), data["sites"]["kind"].size());
      EXPECT_NE(data["sites"]["kind"][row.get<std::size_t>()], static_cast<int>(row_kind::outside));
    }
  }
}

TEST(report_data, totals_agree_in_every_column) {
  for (const profile_mode mode : {profile_mode::full, profile_mode::sample, profile_mode::faults}) {
    const profile p = synthetic_profile({.sites = 500, .mode = mode});
    const json data = report_data(p, {});
    expect_sums(data);
    expect_cost(data, p);
    expect_whole(data);
  }
}

// The number of all faults is exact, so the faults of no site have the variance of those of all sites.
TEST(report_data, faults_outside_of_sites_have_the_variance_of_the_sites) {
  profile p = synthetic_profile({.sites = 3, .mode = profile_mode::sample});
  p.other_faults = 100;
  for (site& each : p.sites) {
    each.figures.faults = 4;
    each.figures.faults_variance = 9;
  }
  const json data = report_data(p, {});
  EXPECT_EQ(data["sites"]["faults_variance"].back(), 27);
  EXPECT_GT(data["sites"]["kernel_variance"].back(), 0);
}

TEST(report_data, resident_memory_by_kind_and_place) {
  profile p = synthetic_profile();
  report_limits limits;
  limits.most_memory_parts = 5;
  const json memory = report_data(p, {}, limits)["memory"];
  double sum = 0;
  for (const json& kind : memory["kinds"]) {
    sum += kind["bytes"].get<double>();
    EXPECT_LE(kind["parts"].size(), 5U);
  }
  EXPECT_EQ(sum, memory["resident_bytes"].get<double>());
  EXPECT_EQ(sum, p.memory.highest()->resident_bytes);
  EXPECT_EQ(memory["kinds"][0]["name"], "live");
  EXPECT_EQ(memory["kinds"][0]["parts"].size(), 5U);
  // Equal parts may come in any order.
  std::set<std::string> names;
  for (std::size_t site = 0; site < 20; ++site) names.insert(site_label(p, p.sites[site]).function);
  EXPECT_TRUE(names.contains(memory["kinds"][0]["parts"][0]["name"].get<std::string>()));
  p.memory = {};
  EXPECT_TRUE(report_data(p, {})["memory"].is_null());
}

TEST(report_data, sites_that_are_not_named_are_in_the_sums) {
  const profile p = synthetic_profile({.sites = 3000});
  report_limits limits;
  limits.sites.most = 20;
  limits.most_places = 5;
  const json few = report_data(p, {}, limits);
  EXPECT_EQ(few["totals"], report_data(p, {})["totals"]);
  expect_sums(few);
  expect_cost(few, p);
  EXPECT_LE(few["sites"]["kind"].size(), 20U + 5 + 1 + 1);
  EXPECT_EQ(sum_of(few["sites"]["sites"]), 3000);
}

TEST(report_data, code_without_names_is_one_place_with_what_brings_its_names) {
  small_program program;
  for (const char* caller : {"first", "second"})
    program.strip(program.add({"x", caller, "main"}, 100, 2000), "/nowhere/libfew.so.1");
  const json data = report_data(program.p, {});
  const auto place = data["sites"]["place"][0].get<std::size_t>();
  EXPECT_EQ(data["sites"]["place"][1].get<std::size_t>(), place);
  EXPECT_EQ(data["strings"][data["frames"]["function"][place].get<std::size_t>()], "?? (libfew.so.1)");
  EXPECT_NE(data["nameless"][std::to_string(place)].get<std::string>().find("DEBUGINFOD_URLS"),
            std::string::npos);
}

TEST(report_data, shares_are_of_the_processor_time_without_the_recorders) {
  small_program program;
  program.p.recorder_ns = 1e8;
  const json data = report_data(program.p, {});
  EXPECT_EQ(data["whole"]["processor_ns"], 900'000'000);
  EXPECT_EQ(data["trouble"]["kind"], "time");
  EXPECT_EQ(data["trouble"]["is_memory"], false);
  program.p.meta["exit"] = {{"signal", 11}};
  EXPECT_EQ(report_data(program.p, {})["trouble"]["kind"], "death");
  EXPECT_EQ(report_data(program.p, {})["trouble"]["is_memory"], false) << "a crash";
}

TEST(report_data, names_999_of_1000_of_the_cost) {
  const profile p = synthetic_profile({.sites = 3000});
  const json data = report_data(p, {});
  double named = 0;
  double rest = 0;
  for (std::size_t row = 0; row < data["sites"]["kind"].size(); ++row) {
    double paid = 0;
    for (const char* part : {"malloc_ns", "fault_ns", "unmap_ns"})
      paid += data["sites"][part][row].get<double>();
    if (data["sites"]["kind"][row] == 0) named += paid;
    if (data["sites"]["kind"][row] == 1) rest += paid;
  }
  EXPECT_GE(named, 0.999 * (named + rest) - 1);
}

TEST(report_data, sites_are_sorted_by_cost) {
  const json data = report_data(synthetic_profile(), {});
  double before = std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < data["sites"]["kind"].size() && data["sites"]["kind"][row] == 0; ++row) {
    double paid = 0;
    for (const char* part : {"malloc_ns", "fault_ns", "unmap_ns"})
      paid += data["sites"][part][row].get<double>();
    EXPECT_LE(paid, before + 3);
    before = paid;
  }
}

// Each named site has the call path that frames_of() gives.
TEST(report_data, call_paths_are_those_of_the_profile) {
  const profile p = synthetic_profile({.sites = 100});
  const json data = report_data(p, {});
  std::vector<cost> costs;
  for (const site& one : p.sites) costs.push_back(cost_of(p, one.figures));
  const std::vector<std::uint32_t> named = chosen_sites(p, costs, {});
  for (std::size_t row = 0; row < named.size(); ++row) {
    const std::vector<source_frame> expected = frames_of(p, p.sites[named[row]].stack);
    std::size_t at = 0;
    for (std::size_t node = data["sites"]["stack"][row]; node != 0; node = data["stacks"]["parent"][node]) {
      ASSERT_LT(at, expected.size());
      const std::size_t frame = data["stacks"]["frame"][node];
      EXPECT_EQ(data["strings"][data["frames"]["function"][frame].get<std::size_t>()], expected[at].function);
      EXPECT_EQ(data["frames"]["line"][frame], expected[at].line);
      EXPECT_EQ(data["frames"]["inlined"][frame], expected[at].inlined ? 1 : 0);
      ++at;
    }
    EXPECT_EQ(at, expected.size());
  }
}

TEST(report_data, lifetimes_and_thread_pairs_add_up_to_all_frees) {
  const profile p = synthetic_profile({.sites = 400});
  double frees = 0;
  for (const site& one : p.sites) frees += one.figures.frees;
  report_limits limits;
  limits.most_threads = 2;
  const json data = report_data(p, {}, limits);
  double in_cells = 0;
  for (const json& cell : data["lifetimes"]) in_cells += cell[2].get<double>();
  double in_pairs = 0;
  for (const json& pair : data["pairs"]) {
    EXPECT_LT(pair[0], data["threads"].size());
    EXPECT_LT(pair[1], data["threads"].size());
    in_pairs += pair[2].get<double>();
  }
  EXPECT_NEAR(in_cells, frees, static_cast<double>(data["lifetimes"].size()));
  EXPECT_NEAR(in_pairs, frees, static_cast<double>(data["pairs"].size()));
  EXPECT_EQ(data["threads"].size(), 3U);
  EXPECT_EQ(data["threads"][2]["others"], p.threads.size() - 2);
}

TEST(report_data, a_long_timeline_is_thinned_and_keeps_its_peak_and_its_end) {
  profile p = synthetic_profile({.sites = 10, .seconds = 5000});
  p.counters[1234].resident_bytes = 1e15;
  report_limits limits;
  limits.most_counters = 100;
  const json counters = report_data(p, {}, limits)["counters"];
  ASSERT_EQ(counters["time_ns"].size(), 100U);
  EXPECT_EQ(counters["time_ns"].back(), p.counters.back().time_ns);
  EXPECT_EQ(counters["faults"].back(), std::llround(p.counters.back().faults));
  const auto& resident = counters["resident_bytes"];
  EXPECT_EQ(*std::max_element(resident.begin(), resident.end()), 1000000000000000);
}

TEST(report_data, actions_point_to_their_sites) {
  const profile p = synthetic_profile({.sites = 50});
  advice one{.kind = advice_kind::buffer_pool, .site = 7, .sites = {7, 9}};
  advice all{.kind = advice_kind::tunable, .instead_of = 0};
  report_limits limits;
  limits.sites.most = 2;  // site 7 may have no row of its own
  const json many = report_data(p, {one, all});
  ASSERT_TRUE(many["actions"][0]["site"].is_number());
  EXPECT_EQ(many["actions"][0]["sites"], 2);
  EXPECT_TRUE(many["actions"][0]["instead_of"].is_null());
  EXPECT_TRUE(many["actions"][1]["site"].is_null());
  EXPECT_EQ(many["actions"][1]["instead_of"], 0);
  EXPECT_EQ(report_data(p, {one}, limits)["actions"].size(), 1U);
}

TEST(report_data, an_empty_profile_is_a_report_of_nothing) {
  profile p;
  p.stacks.resize(1);
  const json data = report_data(p, {});
  expect_sums(data);
  expect_whole(data);
  EXPECT_EQ(data["sites"]["kind"], json::array({2}));
  EXPECT_EQ(data["counters"]["time_ns"], json::array());
}

// A damaged file may have any figure and any parent; JSON has no NaN, and paths must not be cyclic.
TEST(report_data, invalid_figures_and_indexes_are_replaced) {
  profile p = synthetic_profile({.sites = 20});
  p.sites[0].figures.bytes = std::numeric_limits<double>::quiet_NaN();
  p.sites[1].figures.live_bytes = -5;
  p.sites[2].figures.malloc_ns = std::numeric_limits<double>::infinity();
  p.sites[3].stack = 4'000'000'000U;
  p.stacks[5].parent = 5;
  p.stacks[6].parent = 4'000'000'000U;
  p.sites[4].stack = 5;
  p.sites[5].stack = 6;
  p.sites[6].threads.push_back({4'000'000'000U, 0, 1, 1});
  const json data = report_data(p, {});
  expect_sums(data);
  expect_whole(data);
  EXPECT_EQ(data.dump().find("null,null"), std::string::npos);
}

}  // namespace
}  // namespace tarn::profiler
