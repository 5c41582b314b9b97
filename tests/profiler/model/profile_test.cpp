// SPDX-License-Identifier: MIT
// Profiles stored and loaded.
#include "profiler/model/profile.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "profiler/format/table_file.hpp"
#include "profiler/model/figure_columns.hpp"
#include "profiler/model/store_profile.hpp"
#include "tests/profiler/scratch_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

void expect_same(const site& a, const site& b) {
  EXPECT_EQ(a.stack, b.stack);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.evidence, b.evidence);
  for (const figure_column& each : figure_columns) {
    EXPECT_EQ(a.figures.*each.member, b.figures.*each.member) << each.name;
  }
  ASSERT_EQ(a.sizes.size(), b.sizes.size());
  for (std::size_t index = 0; index < a.sizes.size(); ++index) {
    EXPECT_EQ(a.sizes[index].size, b.sizes[index].size);
    EXPECT_EQ(a.sizes[index].count, b.sizes[index].count);
    EXPECT_EQ(a.sizes[index].exact, b.sizes[index].exact);
  }
  ASSERT_EQ(a.lifetimes.size(), b.lifetimes.size());
  for (std::size_t index = 0; index < a.lifetimes.size(); ++index) {
    EXPECT_EQ(a.lifetimes[index].lifetime, b.lifetimes[index].lifetime);
    EXPECT_EQ(a.lifetimes[index].size, b.lifetimes[index].size);
    EXPECT_EQ(a.lifetimes[index].bytes, b.lifetimes[index].bytes);
  }
  ASSERT_EQ(a.threads.size(), b.threads.size());
  for (std::size_t index = 0; index < a.threads.size(); ++index) {
    EXPECT_EQ(a.threads[index].from, b.threads[index].from);
    EXPECT_EQ(a.threads[index].to, b.threads[index].to);
    EXPECT_EQ(a.threads[index].count, b.threads[index].count);
  }
}

TEST(profile, comes_back_from_its_file) {
  for (const profile_mode mode : {profile_mode::sample, profile_mode::full, profile_mode::faults}) {
    synthetic_options options;
    options.mode = mode;
    const profile p = synthetic_profile(options);
    scratch_file file;
    write_synthetic_profile(file.path(), options, 1000);
    const profile again = load_profile(file.path());
    EXPECT_EQ(again.damage, "");
    EXPECT_EQ(again.mode, mode);
    EXPECT_EQ(again.meta["program"], p.meta["program"]);
    EXPECT_EQ(again.prices.huge_fault, p.prices.huge_fault);
    EXPECT_EQ(again.prices.malloc_pair, p.prices.malloc_pair);
    EXPECT_EQ(again.other_faults, p.other_faults);
    EXPECT_EQ(again.unseen_faults, p.unseen_faults);
    EXPECT_DOUBLE_EQ(again.unwind_error_rate, p.unwind_error_rate);
    ASSERT_EQ(again.modules.size(), p.modules.size());
    EXPECT_EQ(again.modules[10].path, p.modules[10].path);
    EXPECT_EQ(again.modules[10].build_id, p.modules[10].build_id);
    EXPECT_EQ(again.modules[10].end, p.modules[10].end);
    ASSERT_EQ(again.stacks.size(), p.stacks.size());
    for (std::size_t node = 0; node < p.stacks.size(); ++node) {
      EXPECT_EQ(again.stacks[node].parent, p.stacks[node].parent);
      EXPECT_EQ(again.stacks[node].address, p.stacks[node].address);
    }
    ASSERT_EQ(again.threads.size(), p.threads.size());
    EXPECT_EQ(again.threads[7].name, "log writer");
    EXPECT_EQ(again.threads[8].end_ns, p.threads[8].end_ns);
    ASSERT_EQ(again.sites.size(), p.sites.size());
    for (std::size_t index = 0; index < p.sites.size(); ++index)
      expect_same(again.sites[index], p.sites[index]);
    ASSERT_EQ(again.counters.size(), p.counters.size());
    EXPECT_EQ(again.counters[100].time_ns, p.counters[100].time_ns);
    EXPECT_EQ(again.counters[100].live_bytes, p.counters[100].live_bytes);
    ASSERT_EQ(again.symbols.size(), p.symbols.size());
    EXPECT_EQ(again.symbols.begin()->second.back().function, p.symbols.begin()->second.back().function);
    EXPECT_EQ(cost_of_all(again).total(), cost_of_all(p).total());
  }
}

TEST(profile, the_last_whole_checkpoint_counts) {
  scratch_file file;
  profile p = synthetic_profile();
  const std::size_t all_nodes = p.stacks.size();
  std::uint64_t first_end = 0;
  {
    table_writer out(file.path());
    stored_rows already;
    profile early = p;
    early.stacks.resize(all_nodes - 10);
    early.sites.resize(50);
    early.counters.resize(100);
    store_profile(out, early, already);
    first_end = out.bytes();
    store_profile(out, p, already);
  }
  const profile late = load_profile(file.path());
  EXPECT_EQ(late.sites.size(), p.sites.size());
  EXPECT_EQ(late.stacks.size(), all_nodes);
  EXPECT_EQ(late.counters.size(), p.counters.size());
  EXPECT_EQ(late.damage, "");
  const auto bytes = file.contents();
  file.set(std::span(bytes).first(first_end + 40));
  const profile early = load_profile(file.path());
  EXPECT_EQ(early.sites.size(), 50U);
  EXPECT_EQ(early.counters.size(), 100U);
  EXPECT_NE(early.damage.find("the file ends too early"), std::string::npos);
}

TEST(profile, rows_that_refer_to_nothing_are_left_out_and_reported) {
  scratch_file file;
  profile p = synthetic_profile();
  p.sites[3].stack = 1000000;
  p.sites[4].threads.push_back({77, 0, 1, 1});
  p.stacks[9].parent = 500;
  {
    table_writer out(file.path());
    store_profile(out, p);
  }
  const profile again = load_profile(file.path());
  EXPECT_EQ(again.sites.size(), p.sites.size() - 1);
  EXPECT_EQ(again.stacks[9].parent, 0U);
  EXPECT_NE(again.damage.find("1 sites refer"), std::string::npos);
  EXPECT_NE(again.damage.find("1 call paths refer"), std::string::npos);
  EXPECT_NE(again.damage.find("3 rows refer"), std::string::npos) << again.damage;
}

// A standard error of 2 s, in ns, or of 2 GB: its square exceeds the limit of all other figures.
TEST(profile, variances_of_large_figures_come_back_from_the_file) {
  scratch_file file;
  profile p = synthetic_profile({.sites = 2});
  for (const figure_column& each : figure_columns) {
    if (is_variance(each)) p.sites[1].figures.*each.member = 4e18;
  }
  p.memory.parts.push_back({0, "live", "", 1, 1e10, 1e17});
  {
    table_writer writer(file.path());
    store_profile(writer, p);
  }
  const profile again = load_profile(file.path());
  EXPECT_EQ(again.sites[1].figures.malloc_variance, 4e18);
  EXPECT_EQ(again.sites[1].figures.bytes_variance, 4e18);
  EXPECT_EQ(again.memory.parts.back().variance, 1e17);
}

TEST(profile, figures_that_no_view_can_show_become_zero) {
  scratch_file file;
  profile p = synthetic_profile();
  p.sites[0].figures.bytes = std::numeric_limits<double>::quiet_NaN();
  p.sites[1].figures.bytes = -5;
  p.sites[2].figures.faults = std::numeric_limits<double>::infinity();
  {
    table_writer out(file.path());
    store_profile(out, p);
  }
  const profile again = load_profile(file.path());
  EXPECT_EQ(again.sites[0].figures.bytes, 0);
  EXPECT_EQ(again.sites[1].figures.bytes, 0);
  EXPECT_EQ(again.sites[2].figures.faults, 0);
}

}  // namespace
}  // namespace tarn::profiler
