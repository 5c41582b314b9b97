// SPDX-License-Identifier: MIT
// advise() on made-up programs that each call for one kind of advice.
#include "profiler/analyze/advice.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <algorithm>
#include <string>

#include "profiler/analyze/experience.hpp"
#include "profiler/analyze/site_group.hpp"
#include "tests/profiler/analyze/small_program.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

const advice* find(const std::vector<advice>& all, advice_kind kind) {
  const auto found =
      std::find_if(all.begin(), all.end(), [kind](const advice& one) { return one.kind == kind; });
  return found != all.end() ? &*found : nullptr;
}

void make_refaulted(site& one) {
  one.figures.peak_bytes = one.figures.bytes_at_peak = one.figures.bytes / one.figures.allocations;
  one.figures.faults = one.figures.fault_pages = one.figures.bytes / 4096;
}

TEST(Advice, NothingRecordedIsLeftAlone) {
  const std::vector<advice> all = advise(small_program().p);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, advice_kind::leave_it);
  EXPECT_FALSE(all[0].reason.empty());
}

TEST(Advice, PageFaultsAloneDoNotSayThatNothingWouldHelp) {
  small_program program;
  program.p.mode = profile_mode::faults;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, advice_kind::leave_it);
  EXPECT_EQ(all[0].headline.find("Leave it"), std::string::npos) << all[0].headline;
  EXPECT_NE(all[0].reason.find("holds page faults alone"), std::string::npos) << all[0].reason;
}

TEST(Advice, OneOtherPlaceIsOnePlace) {
  small_program program;
  program.add({"work()"}, 64, 5e6);
  program.add({"rest()"}, 64, 100);
  const std::string reason = advise(program.p).back().reason;
  EXPECT_TRUE(reason.starts_with("The other place costs ")) << reason;
}

TEST(Advice, WhatSavesLessThanAPercentIsLeftAloneAndNamed) {
  small_program program;
  program.add({"work()"}, 64, 50000);  // 0.5 ms of a second
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::leave_it);
  EXPECT_NE(all[0].reason.find("typed pool"), std::string::npos) << all[0].reason;
  EXPECT_NE(all[0].reason.find("1.0 %"), std::string::npos) << all[0].reason;
}

TEST(Advice, RefaultedBuffersGetTheTunableFirstAndThePoolInsteadOfIt) {
  small_program program;
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  ASSERT_EQ(all[0].variables.size(), 1U);
  EXPECT_EQ(all[0].variables[0].name, "GLIBC_TUNABLES");
  const advice* pool = find(all, advice_kind::buffer_pool);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->instead_of, 0);
  EXPECT_DOUBLE_EQ(pool->memory_bytes, 1 << 20);
  // All but the first block refault: 999 times 256 pages at 1,100 ns, 281.3 ms. That is below the 500 ms in the kernel.
  EXPECT_NEAR(pool->saving_ns, 999.0 * 256 * 1100, 1e3);
}

TEST(Advice, FaultsNeverCostMoreThanTheTimeInTheKernel) {
  small_program program;
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  program.p.counters[0].system_ns = 2816e5 / 10;
  fit_costs(program.p);
  const std::vector<advice> all = advise(program.p);
  // The time in the kernel is a tenth of what the faults would cost; it is sampled at ticks of 4 ms, so it may be more.
  EXPECT_GE(all[0].saving_ns, 999.0 * 256 * 110);
  EXPECT_LE(all[0].saving_ns, 999.0 * 256 * 110 + 4e6 + std::sqrt(2816e4 * 4e6));
}

TEST(Advice, NothingIsPromisedAboveWhatTheProgramSpends) {
  small_program program;
  site& one = program.add({"decode()"}, 64, 5e6);
  one.figures.malloc_ns = 9e8;
  one.figures.peak_bytes = one.figures.bytes_at_peak = 64 << 20;
  program.p.counters[0].user_ns = 95e7;
  program.p.counters[0].system_ns = 5e7;
  for (const advice& each : advise(program.p)) {
    EXPECT_LE(each.saving_ns, 1e9) << each.headline;
    EXPECT_LE(each.high_ns, 1e9) << each.headline;
    EXPECT_LE(each.share, 1) << each.headline;
  }
}

// A parser's site is reached by thousands of paths; each reuses memory that the others have freed.
TEST(Advice, PeaksOfPathsThatTakeTurnsAreNotAddedUp) {
  small_program program;
  for (int path = 0; path < 100; ++path) {
    site& one = program.add({"grow()", "path" + std::to_string(path) + "()"}, 1 << 20, 2);
    one.figures.faults = one.figures.fault_pages = 512;
    one.figures.peak_bytes = 2 << 20;
    one.figures.bytes_at_peak = path == 0 ? 2 << 20 : 0;
  }
  for (auto& [address, frames] : program.p.symbols) {
    if (frames[0].function == "grow()") frames[0].line = 7;
  }
  const std::vector<site_group> groups = group_sites(program.p);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].sum.peak_bytes, 2 << 20);
  EXPECT_EQ(groups[0].again(4096), 99 * 512);
  EXPECT_EQ(advise(program.p)[0].kind, advice_kind::tunable);
}

// Several sites in turn: each touches new pages, where glibc could serve it from memory that another has freed.
TEST(Advice, MemoryThatPlacesTakeTurnsInIsTakenAgain) {
  small_program program;
  for (int place = 0; place < 100; ++place) {
    site& one = program.add({"stage" + std::to_string(place) + "()"}, 1 << 20, 2);
    one.figures.faults = one.figures.fault_pages = 512;
    one.figures.peak_bytes = 2 << 20;
    one.figures.bytes_at_peak = place == 0 ? 2 << 20 : 0;
  }
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  EXPECT_NEAR(all[0].saving_ns, 99.0 * 512 * 1100, 1e3);
}

// Without root, faults in kernel mode, as in read(), are not recorded; the kernel only counts them.
TEST(Advice, FaultsThatOnlyTheKernelCountedBelongToLargeBlocksFoundInMemory) {
  small_program program;
  site& one = program.add({"load()"}, 1 << 20, 1000);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 1 << 20;
  one.figures.checked_bytes = one.figures.resident_bytes = one.figures.bytes;
  const std::vector<advice> none = advise(program.p);
  EXPECT_EQ(none[0].kind, advice_kind::leave_it) << "the kernel counted no fault";
  program.p.unseen_faults = 1000 * 256;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  EXPECT_NEAR(all[0].saving_ns, 999.0 * 256 * 1100, 1e3);
  program.p.meta["fault_period"] = 1;
  program.p.unseen_faults = 100 * 256;
  EXPECT_NEAR(advise(program.p)[0].saving_ns, 99.0 * 256 * 1100, 1e3);
}

// perf_event_open is refused, as in a container, and a heap of small blocks is trimmed and grows again.
TEST(Advice, WhereNoFaultIsSeenSmallBlocksHaveThoseThatTheKernelCounted) {
  small_program program;
  site& one = program.add({"work()"}, 64, 1e6);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 4096 * 1000;
  one.figures.usable_bytes = one.figures.bytes - 8 * one.figures.allocations;
  program.p.unseen_faults = 103000;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  EXPECT_NEAR(all[0].saving_ns, 100000.0 * 1100, 1e3);
  program.p.meta["fault_period"] = 1;
  EXPECT_EQ(find(advise(program.p), advice_kind::tunable), nullptr)
      << "faults were recorded, and none was in a block";
}

// A list whose nodes lie scattered: another malloc may save most of the program's time, although malloc takes little.
TEST(Advice, WhereBlocksMayLieBadlyOnlyAProofTells) {
  small_program program;
  site& one = program.add({"build()"}, 40, 1e6);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 4e7;
  one.figures.malloc_ns = 1e6;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::leave_it);
  const advice* placement = find(all, advice_kind::placement);
  ASSERT_NE(placement, nullptr);
  EXPECT_EQ(placement->saving_ns, 0);
  EXPECT_EQ(placement->change, "tarn prove FILE");
  EXPECT_NE(placement->evidence[0].find("1M blocks"), std::string::npos) << placement->evidence[0];
  program.p.sites[0].figures.bytes_at_peak = 1e6;
  EXPECT_EQ(find(advise(program.p), advice_kind::placement), nullptr) << "fits into the caches";
}

TEST(Advice, WhereFaultsDecideTheTunableComesBeforeAnotherMalloc) {
  small_program program;
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  std::vector<advice> all = advise(program.p);
  for (advice& one : all) {
    if (one.kind != advice_kind::tunable && one.kind != advice_kind::allocator) continue;
    one.grade = advice_grade::replayed;
    const double raw = one.kind == advice_kind::tunable ? 384e6 : 385e6;
    apply_experience(one, {raw, raw, raw, 0, raw}, judged_program{1e9});
  }
  all = arrange_advice(program.p, all);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  const advice* malloc = find(all, advice_kind::allocator);
  ASSERT_NE(malloc, nullptr);
  EXPECT_EQ(malloc->instead_of, 0);
}

TEST(Advice, OtherMallocsGetNoGlibcTunable) {
  small_program program;
  program.p.meta["allocator"] = "/usr/lib/libjemalloc.so.2";
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  const std::vector<advice> all = advise(program.p);
  EXPECT_EQ(find(all, advice_kind::tunable), nullptr);
  EXPECT_EQ(find(all, advice_kind::allocator), nullptr);
  EXPECT_NE(find(all, advice_kind::buffer_pool), nullptr);
}

TEST(Advice, OneSizeInOneThreadIsATypedPool) {
  small_program program;
  program.add({"book::insert(order&&)"}, 64, 5e6).type = "order";
  const advice* pool = find(advise(program.p), advice_kind::typed_pool);
  ASSERT_NE(pool, nullptr);
}

TEST(Advice, TypedPoolSaysWhatToWrite) {
  small_program program;
  program.add({"book::insert(order&&)"}, 64, 5e6).type = "order";
  const std::vector<advice> all = advise(program.p);
  const advice* pool = find(all, advice_kind::typed_pool);
  ASSERT_NE(pool, nullptr);
  EXPECT_NE(pool->change.find("tarn::pooled<order>"), std::string::npos) << pool->change;
  EXPECT_NE(pool->place.find("book::insert"), std::string::npos);
  EXPECT_NEAR(pool->saving_ns, 5e6 * 8, 1);
  EXPECT_LE(pool->low_ns, pool->saving_ns);
  EXPECT_GE(pool->high_ns, pool->saving_ns);
}

TEST(Advice, AcrossThreadsItIsAnObjectPool) {
  small_program program;
  site& one = program.add({"session::on_message()"}, 192, 5e6);
  one.figures.foreign_frees = 4e6;
  const std::vector<advice> all = advise(program.p);
  EXPECT_NE(find(all, advice_kind::object_pool), nullptr);
  EXPECT_EQ(find(all, advice_kind::typed_pool), nullptr);
}

TEST(Advice, ArraysOfAContainerGetNoTypedPool) {
  small_program program;
  program.add({"std::vector<int>::reserve(unsigned long)", "fill()"}, 64, 5e6);
  EXPECT_EQ(find(advise(program.p), advice_kind::typed_pool), nullptr);
}

TEST(Advice, WhatDiesInBatchesIsAnArena) {
  small_program program;
  site& one = program.add({"json::parse()"}, 48, 5e6);
  one.figures.batch_frees = 4.9e6;
  const std::vector<advice> all = advise(program.p);
  ASSERT_NE(find(all, advice_kind::arena), nullptr);
  EXPECT_EQ(all[0].kind, advice_kind::arena);
}

TEST(Advice, FewSamplesDoNotShowABatch) {
  small_program program;
  program.p.mode = profile_mode::sample;
  site& one = program.add({"json::parse()"}, 48, 5e6);
  one.figures.batch_frees = 4.9e6;
  one.figures.samples = 7;
  EXPECT_EQ(find(advise(program.p), advice_kind::arena), nullptr);
  program.p.sites[0].figures.samples = 70;
  EXPECT_NE(find(advise(program.p), advice_kind::arena), nullptr);
}

TEST(Advice, GrowingStepByStepIsReserve) {
  small_program program;
  site& one = program.add({"std::string::_M_mutate(unsigned long)", "std::string::push_back(char)", "line()"},
                          31, 2e6);
  one.sizes = {{31, 1e6, true}, {61, 1e6, true}, {121, 1e6, true}};
  one.figures.allocations = one.figures.frees = 3e6;
  one.figures.bytes = 213e6;
  one.figures.malloc_ns = 3e7;
  const std::vector<advice> all = advise(program.p);
  const advice* reserve = find(all, advice_kind::reserve);
  ASSERT_NE(reserve, nullptr);
  EXPECT_NE(reserve->evidence[0].find("1M arrays"), std::string::npos) << reserve->evidence[0];
}

TEST(Advice, ConstructorsThatAllocateAreRecycled) {
  small_program program;
  program.add({"ns::parser::parser(int)", "serve()"}, 4096, 1e6);
  program.add({"ns::parser::parser(int)", "serve()"}, 512, 1e6);
  const advice* recycler = nullptr;
  const std::vector<advice> all = advise(program.p);
  recycler = find(all, advice_kind::recycler);
  ASSERT_NE(recycler, nullptr);
  EXPECT_EQ(recycler->type, "ns::parser");
  EXPECT_EQ(recycler->sites.size(), 2U);
}

TEST(Advice, UntouchedMemoryIsARemarkWithoutASaving) {
  small_program program;
  site& one = program.add({"cache::reserve()"}, 64 << 20, 4);
  one.figures.checked_bytes = one.figures.bytes;
  one.figures.resident_bytes = one.figures.bytes / 20;
  const std::vector<advice> all = advise(program.p);
  const advice* less = find(all, advice_kind::ask_for_less);
  ASSERT_NE(less, nullptr);
  EXPECT_EQ(less->saving_ns, 0);
  EXPECT_EQ(all[0].kind, advice_kind::leave_it);
}

TEST(Advice, SamplesWidenTheInterval) {
  small_program program;
  site& one = program.add({"work()"}, 64, 5e6);
  one.figures.samples = 100;
  const advice full = *find(advise(program.p), advice_kind::typed_pool);
  program.p.mode = profile_mode::sample;
  const advice sampled = *find(advise(program.p), advice_kind::typed_pool);
  EXPECT_DOUBLE_EQ(sampled.saving_ns, full.saving_ns);
  EXPECT_LT(sampled.low_ns, full.low_ns);
  EXPECT_GT(sampled.high_ns, full.high_ns);
}

TEST(Advice, OfEveryProfileTheInvariantsHold) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    synthetic_options options;
    options.seed = seed;
    options.sites = 10 + 20 * seed;
    options.symbols = seed % 2 == 0;
    options.mode = seed % 3 == 0 ? profile_mode::sample : profile_mode::full;
    const profile p = synthetic_profile(options);
    const std::vector<advice> all = advise(p, {0.0001, 50});
    ASSERT_FALSE(all.empty());
    for (std::size_t index = 0; index < all.size(); ++index) {
      const advice& one = all[index];
      EXPECT_LE(0, one.low_ns);
      EXPECT_LE(one.low_ns, one.saving_ns);
      EXPECT_LE(one.saving_ns, one.high_ns);
      EXPECT_LT(one.instead_of, static_cast<int>(index));
      EXPECT_FALSE(one.headline.empty());
      EXPECT_FALSE(one.reason.empty());
      EXPECT_FALSE(one.evidence.empty());
      for (const std::uint32_t site : one.sites) EXPECT_LT(site, p.sites.size());
    }
    EXPECT_EQ(std::count_if(all.begin(), all.end(),
                            [](const advice& one) { return one.kind == advice_kind::leave_it; }),
              1);
  }
}

}  // namespace
}  // namespace tarn::profiler
