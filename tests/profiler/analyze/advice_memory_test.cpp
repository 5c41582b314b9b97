// SPDX-License-Identifier: MIT
// The rules about page faults, one by one.
#include <gtest/gtest.h>

#include "profiler/analyze/advice_rules.hpp"
#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

// Ten blocks of 8 MiB at once, all of whose small pages were faulted in.
small_program program_of_large_blocks() {
  small_program program;
  program.p.meta["thp"] = "madvise";
  program.p.prices.huge_fault = 100000;
  site& one = program.add({"load()"}, 8 << 20, 10);
  one.figures.faults = one.figures.fault_pages = 20480;
  return program;
}

// perf_event_open is refused, as in a container: the kernel's count has faults, and no place has any.
TEST(advice_memory, a_program_that_allocates_nowhere_keeps_no_memory) {
  small_program program;
  program.p.unseen_faults = 100000;
  EXPECT_FALSE(advise_keeping_memory(facts_of(program.p)));
}

// The pages are counted, the bytes that lived at once come from samples: what they differ by may be chance.
TEST(advice_memory, what_samples_may_have_missed_is_no_page_faulted_in_again) {
  small_program program;
  site& one = program.add({"build()"}, 64, 5e5);
  one.figures.frees = one.figures.freed_bytes = 0;
  one.figures.faults = one.figures.fault_pages = one.figures.bytes / 4096;
  one.figures.peak_bytes = one.figures.bytes_at_peak = 0.8 * one.figures.bytes;
  EXPECT_TRUE(advise_keeping_memory(facts_of(program.p))) << "every block is known";
  one.figures.bytes_variance = one.figures.bytes * (1 << 19);  // sampled every 512 KiB
  EXPECT_FALSE(advise_keeping_memory(facts_of(program.p)));
  EXPECT_EQ(advise_allocator(facts_of(program.p))->evidence.size(), 1U);
  one.figures.bytes_at_peak /= 10;
  const auto sure = advise_keeping_memory(facts_of(program.p));
  ASSERT_TRUE(sure);
  EXPECT_GT(sure->counted_variance, 0);
  EXPECT_NE(advise_allocator(facts_of(program.p))->evidence[1].find("faulted in again"), std::string::npos);
}

TEST(advice_memory, glibc_is_told_to_keep_twice_the_peak_in_whole_mebibytes) {
  small_program program;
  site& one = program.add({"decode()"}, 100 << 20, 10);
  one.figures.peak_bytes = one.figures.bytes_at_peak = (100 << 20) + 1;
  one.figures.faults = one.figures.fault_pages = 256000;
  const auto advised = advise_keeping_memory(facts_of(program.p));
  ASSERT_TRUE(advised);
  EXPECT_EQ(advised->change,
            "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=210763776 PROGRAM ARG...");
  EXPECT_EQ(advised->evidence[1], "a page costs 1.10 us to fault in and to give back on this machine");
  program.p.fit.kernel = 0.5;
  EXPECT_EQ(
      advise_keeping_memory(facts_of(program.p))->evidence[1],
      "a page costs 550 ns to fault in and to give back: the price list says 1.10 us, but then the sum would "
      "exceed the program's time in the kernel");
}

TEST(advice_memory, huge_pages_where_the_system_gives_them_on_request) {
  small_program program = program_of_large_blocks();
  const auto advised = advise_huge_pages(facts_of(program.p));
  ASSERT_TRUE(advised);
  EXPECT_EQ(advised->counted_ns, 20480 * 1000.0);
  EXPECT_EQ(advised->change, "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 PROGRAM ARG...");
  program.p.prices.huge_fault = 512000;
  EXPECT_FALSE(advise_huge_pages(facts_of(program.p))) << "huge pages cost as much as small ones";
  program.p.prices.huge_fault = 0;
  EXPECT_FALSE(advise_huge_pages(facts_of(program.p))) << "the system gave none";
}

TEST(advice_memory, huge_pages_only_under_a_glibc_that_asks_for_them) {
  for (const auto& [allocator, thp, advised] : {std::tuple{"glibc 2.35", "madvise", true},
                                                {"glibc 2.34", "madvise", false},
                                                {"/lib/libc.so.6", "madvise", true},
                                                {"/lib/libc-2.31.so", "madvise", false},
                                                {"/lib/libjemalloc.so.2", "madvise", false},
                                                {"glibc 2.36", "always", false},
                                                {"glibc 2.36", "never", false}}) {
    small_program program = program_of_large_blocks();
    program.p.meta["allocator"] = allocator;
    program.p.meta["thp"] = thp;
    EXPECT_EQ(advise_huge_pages(facts_of(program.p)).has_value(), advised) << allocator << ", " << thp;
  }
}

TEST(advice_memory, of_a_buffer_the_pages_that_were_faulted_in_again_count) {
  small_program program;
  site& one = program.add({"decode()"}, 1 << 20, 1000);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 1 << 20;
  one.figures.faults = one.figures.fault_pages = 256000;
  const advice_facts facts = facts_of(program.p);
  EXPECT_DOUBLE_EQ(advise_buffer_pool(facts, facts.groups.at(0))->counted_ns, 999.0 * 256 * 1100);
}

TEST(advice_memory, a_vectors_buffer_comes_from_an_allocator) {
  small_program program;
  site& one = program.add({"std::vector<pixel>::reserve(unsigned long)", "decode()"}, 1 << 20, 1000);
  one.type = "pixel";
  one.figures.peak_bytes = 1 << 20;
  one.figures.faults = one.figures.fault_pages = 256000;
  const advice_facts facts = facts_of(program.p);
  EXPECT_EQ(advise_buffer_pool(facts, facts.groups.at(0))->change,
            "#include <tarn/buffer_pool.hpp>\nstd::vector<pixel, tarn::buffer_allocator<pixel>> values;");
}

TEST(advice_memory, less_is_asked_for_where_half_of_much_memory_is_never_touched) {
  small_program program;
  site& one = program.add({"cache::reserve()"}, 64 << 20, 1);
  one.figures.peak_bytes = one.figures.bytes_at_peak = one.figures.checked_bytes = 64 << 20;
  one.figures.resident_bytes = 32 << 20;
  const auto advised = [&program] {
    const advice_facts facts = facts_of(program.p);
    return advise_asking_for_less(facts, facts.groups.at(0));
  };
  ASSERT_TRUE(advised());
  EXPECT_EQ(advised()->headline, "Request less: 50 % of these blocks is never touched");
  EXPECT_EQ(advised()->change, "request about 32 MiB at first, and grow on demand");
  one.figures.resident_bytes += 1;
  EXPECT_FALSE(advised());
}

}  // namespace
}  // namespace tarn::profiler
