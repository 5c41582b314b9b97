// SPDX-License-Identifier: MIT
// What the rules of advice know about a program.
#include <gtest/gtest.h>

#include "profiler/analyze/advice_rules.hpp"
#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

TEST(advice_facts, glibc_is_known_by_its_name_or_its_file) {
  for (const auto& [allocator, glibc, minor] : {std::tuple{"glibc 2.36", true, 36},
                                                {"/lib/x86_64-linux-gnu/libc.so.6", true, 0},
                                                {"/lib/libc-2.31.so", true, 31},
                                                {"libc.so.6", true, 0},
                                                {"/lib/libjemalloc.so.2", false, 0},
                                                {"/opt/libc.so.6/libmine.so", false, 0},
                                                {"", false, 0}}) {
    small_program program;
    program.p.meta["allocator"] = allocator;
    const advice_facts facts = facts_of(program.p);
    EXPECT_EQ(facts.glibc, glibc) << allocator;
    EXPECT_EQ(facts.glibc_minor, minor) << allocator;
  }
}

TEST(advice_facts, processor_time_or_else_the_duration) {
  profile p;
  EXPECT_EQ(cpu_time_of(p), 1);
  p.meta = {{"duration_ns", 5e9}};
  EXPECT_EQ(cpu_time_of(p), 5e9);
  p.counters.resize(1);
  p.counters[0].user_ns = 2e9;
  p.counters[0].system_ns = 1e9;
  EXPECT_EQ(cpu_time_of(p), 3e9);
}

TEST(advice_facts, a_process_that_slept_has_not_used_its_whole_duration) {
  small_program program;
  profile& p = program.p;
  p.meta["duration_ns"] = 5e9;
  p.counters.assign(1, {});
  EXPECT_EQ(cpu_time_of(p), clock_tick_ns);
  p.meta["duration_ns"] = 3e6;
  EXPECT_EQ(cpu_time_of(p), 3e6);
  program.add({"work()"}, 64, 5e6);  // costs 50 ms
  p.counters.assign(1, {});
  EXPECT_EQ(cpu_time_of(p), cost_of_all(p).total());
  EXPECT_GT(cpu_time_of(p), clock_tick_ns);
}

TEST(advice_facts, the_programs_own_time_is_without_allocation) {
  small_program program;
  program.add({"work()"}, 64, 1e6);  // 10 ms
  EXPECT_EQ(facts_of(program.p).own_ns, 1e9 - 1e7);
  program.p.sites[0].figures.malloc_ns = 2e9;
  EXPECT_EQ(facts_of(program.p).own_ns, 0);
}

TEST(advice_facts, pages_beyond_the_peak_are_faulted_in_again) {
  small_program program;
  site& one = program.add({"f()"}, 1 << 20, 10);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 1 << 20;
  one.figures.faults = one.figures.fault_pages = 2560;
  const refaults sum = refaults_of(facts_of(program.p));
  EXPECT_EQ(sum.all_pages, 2560);
  EXPECT_EQ(sum.pages, 2560 - 256);
  EXPECT_EQ(sum.peak_bytes, 1 << 20);
  EXPECT_EQ(sum.sites, std::vector<std::uint32_t>{0});
  EXPECT_EQ(refaults_of(facts_of(small_program().p)).all_pages, 0);
}

// 2,000 pages are those of images and stacks.
TEST(advice_facts, where_no_fault_was_seen_those_of_the_kernels_count_are_mallocs) {
  small_program program;
  program.add({"f()"}, 64, 100);
  program.p.unseen_faults = 5000;
  EXPECT_EQ(refaults_of(facts_of(program.p)).all_pages, 3000);
  program.p.unseen_faults = 1500;
  EXPECT_EQ(refaults_of(facts_of(program.p)).all_pages, 0);
}

TEST(advice_facts, blocks_beyond_a_kibibyte_are_not_small) {
  small_program program;
  program.add({"small()"}, 1024, 100).figures.bytes_at_peak = 4096;
  program.add({"smaller()"}, 16, 100).figures.bytes_at_peak = 1600;
  program.add({"large()"}, 1025, 100).figures.bytes_at_peak = 1e9;
  const small_blocks found = facts_of(program.p).small;
  EXPECT_EQ(found.bytes, 4096 + 1600);
}

TEST(advice_facts, placement_matters_beyond_the_caches_in_programs_that_do_other_work) {
  small_program program;
  site& one = program.add({"f()"}, 64, 1e6);
  one.figures.bytes_at_peak = 0x1p22;
  const auto may_matter = [&program] { return facts_of(program.p).placement_may_matter(); };
  EXPECT_TRUE(may_matter());
  one.figures.bytes_at_peak = 0x1p22 - 1;
  EXPECT_FALSE(may_matter());
  one.figures.bytes_at_peak = 0x1p22;
  one.figures.malloc_ns = 8e8;
  EXPECT_FALSE(may_matter());
}

TEST(advice_facts, of_a_cost_the_kind_decides_which_part_counts) {
  const small_program program;
  const advice_facts facts = facts_of(program.p);
  cost charged{
      .malloc_ns = 100, .fault_ns = 1000, .unmap_ns = 200, .malloc_variance = 16, .kernel_variance = 900};
  const auto counted = [&](advice_kind kind, double calls = 1, double faults = 1) {
    advice one;
    one.kind = kind;
    set_counted(one, facts, charged, calls, faults);
    return std::pair(one.counted_ns, one.counted_variance);
  };
  EXPECT_EQ(counted(advice_kind::typed_pool), std::pair(100.0, 16.0));
  EXPECT_EQ(counted(advice_kind::buffer_pool), std::pair(1200.0, 900.0));
  EXPECT_DOUBLE_EQ(counted(advice_kind::reserve, 0.5, 0.1).first, 50 + 120);
  EXPECT_DOUBLE_EQ(counted(advice_kind::reserve, 0.5, 0.1).second, 4 + 9);
  EXPECT_EQ(counted(advice_kind::typed_pool, 7), std::pair(100.0, 16.0)) << "not more than there is";
}

}  // namespace
}  // namespace tarn::profiler
