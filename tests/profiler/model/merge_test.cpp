// SPDX-License-Identifier: MIT
// Profiles of several processes merged into one, joined as a whole, and taken apart again.
#include "profiler/model/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../scratch_file.hpp"
#include "../synthetic_profile.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::profiler {
namespace {

constexpr double second_ns = 1e9;

// A process with its program at `base` and a library at base + 0x10000. One site in the library, called from main, has
// allocated one block of `bytes`.
profile process_at(std::uint64_t base, double start, double seconds, double bytes,
                   const std::string& build = "b1") {
  profile p;
  p.meta = {{"program", "/bin/p"},      {"command", "p"},
            {"start", start},           {"duration_ns", seconds * second_ns},
            {"page_bytes", 4096},       {"pid", static_cast<int>(base >> 12)},
            {"refused", {"a sentence"}}};
  p.mode = profile_mode::full;
  p.prices.fault = 100;
  p.modules = {{"/bin/p", build, base, base + 0x1000, 0x2000},
               {"/lib/l.so", "l1", base + 0x10000, base + 0x18000, 0}};
  p.stacks = {{}, {0, base + 0x100}, {1, base + 0x10200}};
  p.symbols[base + 0x100] = {{"main", "p.cpp", 5, false}};
  p.symbols[base + 0x10200] = {{"get", "l.cpp", 9, false}};
  p.threads = {{base, "worker", 0, 0}};
  site one;
  one.stack = 2;
  one.figures.allocations = 1;
  one.figures.bytes = one.figures.peak_bytes = one.figures.bytes_at_peak = bytes;
  one.figures.faults = 10;
  one.sizes = {{static_cast<std::uint64_t>(bytes), 1, true}};
  one.lifetimes = {{3, 4, 1, bytes}};
  one.threads = {{0, 0, 1, bytes}};
  p.sites = {one};
  p.other_faults = 5;
  counter_row row;
  row.time_ns = static_cast<std::uint64_t>(seconds * second_ns);
  row.resident_bytes = row.live_bytes = bytes;
  row.faults = 15;
  row.user_ns = 1e6;
  p.counters = {row};
  return p;
}

profile merged(const std::vector<profile>& all) {
  profile_merger merger;
  for (const profile& each : all) merger.add(each);
  return merger.take();
}

profile joined(profile parts);

// Of several recordings of one program: the margins of their sum are those of so many recordings.
TEST(merge, recordings_together_have_a_narrower_margin) {
  profile one = process_at(0x10000, 1, 1, 100);
  one.mode = profile_mode::sample;
  site_figures& figures = one.sites[0].figures;
  figures.malloc_ns = 1e6;
  figures.allocations_variance = 0.04;
  one.malloc_time.clock_part = 0.9;
  one.malloc_time.clock_error = 0.1;
  one.malloc_time.ns = 1e6;
  std::vector<profile> all;
  for (std::uint64_t run = 0; run < 4; ++run) {
    all.push_back(one);
    all.back().meta["start"] = 1.0 + 2.0 * static_cast<double>(run);
  }
  const profile four = joined(merged(all));
  EXPECT_NEAR(cost_of_all(four).malloc_ns, 4e6, 1);
  EXPECT_NEAR(std::sqrt(cost_of_all(four).malloc_variance) / 4e6, 0.1 / 2, 1e-3);
  EXPECT_NEAR(std::sqrt(sum_with_variances(four).allocations_variance) / 4, 0.2 / 2, 1e-6);
}

profile joined(profile parts) {
  join_sites(parts);
  return parts;
}

TEST(merge, joins_call_paths_by_file_and_offset) {
  const profile parts = merged({process_at(0x400000, 10, 1, 100), process_at(0x7f0000000, 10, 1, 50)});
  EXPECT_EQ(parts.sites.size(), 2U);
  EXPECT_EQ(parts.stacks.size(), 3U);
  EXPECT_EQ(parts.modules.size(), 2U);
  EXPECT_EQ(parts.sites[0].stack, parts.sites[1].stack);
  EXPECT_EQ(parts.threads.size(), 2U);
  const profile whole = joined(parts);
  ASSERT_EQ(whole.sites.size(), 1U);
  EXPECT_EQ(whole.sites[0].figures.allocations, 2);
  EXPECT_EQ(whole.sites[0].figures.faults, 20);
  EXPECT_EQ(whole.sites[0].sizes.size(), 2U);
  EXPECT_EQ(whole.sites[0].threads.size(), 2U);
  EXPECT_EQ(whole.sites[0].threads[1].from, 1U);
  const auto frames = frames_of(whole, whole.sites[0].stack);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].function, "get");
  EXPECT_EQ(frames[1].function, "main");
}

TEST(merge, joins_another_build_by_symbol_and_nothing_without_one) {
  profile other = process_at(0x500000, 20, 1, 50, "b2");
  other.modules[0].file_offset = 0x7000;  // the function is elsewhere in the file
  EXPECT_EQ(joined(merged({process_at(0x400000, 10, 1, 100), other})).sites.size(), 1U);
  other.symbols.erase(0x500100);
  const profile apart = joined(merged({process_at(0x400000, 10, 1, 100), other}));
  ASSERT_EQ(apart.sites.size(), 2U);
  EXPECT_EQ(frames_of(apart, apart.sites[1].stack)[1].function, "?? (p+0x7100)");
}

TEST(merge, keeps_names_of_code_that_is_in_no_file) {
  profile compiled = process_at(0x400000, 10, 1, 100);
  compiled.modules.clear();
  profile other = compiled;
  other.symbols.erase(0x400100);
  const profile whole = joined(merged({compiled, compiled, other}));
  EXPECT_EQ(whole.sites.size(), 2U);
  EXPECT_EQ(frames_of(whole, whole.sites[0].stack)[1].function, "main");
  EXPECT_EQ(frames_of(whole, whole.sites[1].stack)[1].function, "?? (0x400100)");
}

TEST(merge, peaks_add_up_only_where_processes_ran_at_once) {
  const profile one = process_at(0x400000, 10, 2, 100);
  EXPECT_EQ(joined(merged({one, process_at(0x400000, 12.5, 1, 70)})).sites[0].figures.peak_bytes, 100);
  const profile together =
      joined(merged({one, process_at(0x400000, 11, 2, 70), process_at(0x400000, 12.5, 1, 60)}));
  EXPECT_EQ(together.sites[0].figures.peak_bytes, 170);
  EXPECT_EQ(together.sites[0].figures.bytes_at_peak, 170);
}

TEST(merge, time_in_which_none_ran_is_left_out) {
  const profile parts = merged({process_at(0x400000, 100, 2, 10), process_at(0x400000, 50, 1, 20)});
  const auto spans = spans_of(parts.processes);
  EXPECT_DOUBLE_EQ(spans[0].begin, 1 * second_ns);
  EXPECT_DOUBLE_EQ(spans[0].end, 3 * second_ns);
  EXPECT_DOUBLE_EQ(spans[1].begin, 0);
  EXPECT_EQ(parts.meta["duration_ns"], 3 * second_ns);
  EXPECT_EQ(parts.meta["processes"], 2);
}

TEST(merge, counters_of_the_whole_are_the_sums_of_running_processes) {
  const profile parts = merged({process_at(0x400000, 10, 3, 100), process_at(0x400000, 11, 1, 70)});
  ASSERT_EQ(parts.counters.size(), 3U);
  EXPECT_EQ(parts.counters[0].time_ns, 2 * second_ns);
  EXPECT_EQ(parts.counters[0].resident_bytes, 70);
  EXPECT_EQ(parts.counters[1].resident_bytes, 0);  // the short one has ended, and the long one has no row yet
  EXPECT_EQ(parts.counters[2].resident_bytes, 100);
  EXPECT_EQ(parts.counters[2].faults, 30);
  EXPECT_EQ(parts.counters[2].user_ns, 2e6);
}

TEST(merge, costs_are_those_of_the_processes_at_their_own_prices) {
  const profile cheap = process_at(0x400000, 10, 1, 10);
  profile costly = process_at(0x400000, 10, 1, 10);
  costly.prices.fault = 700;
  const profile whole = joined(merged({cheap, costly}));
  EXPECT_DOUBLE_EQ(cost_of_all(whole).total(), cost_of_all(cheap).total() + cost_of_all(costly).total());
  EXPECT_EQ(whole.other_faults, 10);
  EXPECT_EQ(whole.meta["refused"], nlohmann::json({"a sentence"}));
}

TEST(merge, a_process_comes_out_as_it_went_in) {
  const profile first = process_at(0x7f0000000, 10, 1, 100);
  const profile second = synthetic_profile({.sites = 40, .seconds = 10, .seed = 2});
  const profile parts = merged({first, second});
  const profile again = process_of(parts, 1);
  ASSERT_EQ(again.sites.size(), second.sites.size());
  EXPECT_EQ(again.threads.size(), second.threads.size());
  EXPECT_EQ(again.counters.size(), second.counters.size());
  EXPECT_DOUBLE_EQ(cost_of_all(again).total(), cost_of_all(second).total());
  EXPECT_EQ(again.meta["program"], second.meta["program"]);
  for (std::size_t index = 0; index < second.sites.size(); ++index) {
    const auto frames = frames_of(second, second.sites[index].stack);
    const auto frames_again = frames_of(again, again.sites[index].stack);
    ASSERT_EQ(frames.size(), frames_again.size());
    for (std::size_t depth = 0; depth < frames.size(); ++depth) {
      EXPECT_EQ(frames[depth].function, frames_again[depth].function);
    }
  }
}

TEST(merge, a_borrowed_process_is_the_same_and_gives_its_lists_back) {
  profile parts = merged(
      {process_at(0x7f0000000, 10, 1, 100), synthetic_profile({.sites = 40, .seconds = 10, .seed = 2})});
  const profile copy = process_of(parts, 1);
  const auto all_sizes = [](const profile& p) {
    std::vector<std::size_t> sizes;
    for (const site& each : p.sites) {
      sizes.push_back(each.sizes.size());
      sizes.push_back(each.lifetimes.size());
    }
    return sizes;
  };
  const std::vector<std::size_t> before = all_sizes(parts);
  {
    const borrowed_process borrowed(parts, 1);
    EXPECT_EQ(all_sizes(borrowed.get()), all_sizes(copy));
    EXPECT_NE(all_sizes(parts), before);
  }
  EXPECT_EQ(all_sizes(parts), before);
}

TEST(merge, is_the_same_from_its_file_and_merges_again) {
  const profile one = synthetic_profile({.sites = 60, .seconds = 20, .seed = 1});
  const profile parts = merged({one, process_at(0x400000, 10, 1, 100)});
  const scratch_file file;
  {
    table_writer out(file.path());
    store_profile(out, parts);
  }
  const profile loaded = load_parts(file.path());
  EXPECT_EQ(loaded.damage, "");
  ASSERT_EQ(loaded.processes.size(), 2U);
  EXPECT_EQ(loaded.processes[0].counters.size(), one.counters.size());
  EXPECT_EQ(loaded.sites.size(), parts.sites.size());
  EXPECT_EQ(loaded.sites.back().process, 1U);
  EXPECT_EQ(loaded.threads.back().process, 1U);
  const profile whole = load_profile(file.path());
  EXPECT_DOUBLE_EQ(cost_of_all(whole).total(), cost_of_all(joined(parts)).total());
  const profile twice = merged({loaded, process_at(0x900000, 40, 1, 100)});
  EXPECT_EQ(twice.processes.size(), 3U);
  EXPECT_EQ(joined(twice).sites.size(), whole.sites.size());
}

TEST(merge, processes_added_to_one_place_become_one_process) {
  profile_merger merger;
  for (int count = 0; count < 5; ++count)
    merger.add_to(0, process_at(0x400000 + 0x1000 * count, 10 + count, 1, 100));
  const profile parts = merger.take();
  ASSERT_EQ(parts.processes.size(), 1U);
  EXPECT_EQ(parts.meta["processes"], 5);
  ASSERT_EQ(parts.sites.size(), 1U);
  EXPECT_EQ(parts.sites[0].figures.allocations, 5);
  EXPECT_EQ(parts.sites[0].figures.peak_bytes, 100);
  EXPECT_EQ(parts.counters.back().user_ns, 5e6);
}

TEST(merge, rows_of_processes_that_are_not_there_are_left_out) {
  profile parts = merged({process_at(0x400000, 10, 1, 100), process_at(0x400000, 10, 1, 100)});
  parts.sites[1].process = 7;
  parts.threads[1].process = 9;
  const scratch_file file;
  {
    table_writer out(file.path());
    store_profile(out, parts);
  }
  const profile loaded = load_profile(file.path());
  EXPECT_EQ(loaded.sites.size(), 1U);
  EXPECT_NE(loaded.damage, "");
}

}  // namespace
}  // namespace tarn::profiler
