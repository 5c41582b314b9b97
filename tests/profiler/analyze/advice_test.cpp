// SPDX-License-Identifier: MIT
// advise() on made-up programs that each call for one kind of advice.
#include "profiler/analyze/advice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

TEST(advice, nothing_recorded_is_left_alone) {
  const std::vector<advice> all = advise(small_program().p);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, advice_kind::leave_it);
  EXPECT_FALSE(all[0].reason.empty());
}

TEST(advice, page_faults_alone_do_not_say_that_nothing_would_help) {
  small_program program;
  program.p.mode = profile_mode::faults;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, advice_kind::leave_it);
  EXPECT_EQ(all[0].headline.find("Leave it"), std::string::npos) << all[0].headline;
  EXPECT_NE(all[0].reason.find("holds page faults alone"), std::string::npos) << all[0].reason;
}

TEST(advice, where_much_is_paid_for_what_no_advice_concerns_only_less_of_it_helps) {
  small_program program;
  site& one = program.add({"read()"}, 100'000, 1000);
  one.figures.frees = one.figures.freed_bytes = 0;
  one.figures.live = one.figures.allocations;
  one.figures.live_bytes = one.figures.peak_bytes = one.figures.bytes_at_peak = one.figures.bytes;
  one.figures.faults = one.figures.fault_pages = 25'000;
  program.p.prices.fault = 4000;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::leave_it) << all[0].headline;
  EXPECT_TRUE(all[0].headline.starts_with("Leave how it allocates: only fewer blocks")) << all[0].headline;
}

TEST(advice, one_other_place_is_one_place) {
  small_program program;
  program.add({"work()"}, 64, 5e6);
  program.add({"rest()"}, 64, 100);
  const std::string reason = advise(program.p).back().reason;
  EXPECT_TRUE(reason.starts_with("The other place costs ")) << reason;
}

TEST(advice, what_costs_less_than_the_limit_is_left_alone) {
  small_program program;
  program.add({"work()"}, 64, 50000);  // 0.5 ms of a second
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::leave_it);
  EXPECT_NE(all[0].reason.find("2.0 %"), std::string::npos) << all[0].reason;
}

TEST(advice, refaulted_buffers_get_the_tunable_first_and_the_pool_instead_of_it) {
  small_program program;
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  ASSERT_EQ(all[0].variables.size(), 1U);
  EXPECT_EQ(all[0].variables[0].name, "GLIBC_TUNABLES");
  const advice* pool = find(all, advice_kind::buffer_pool);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->instead_of, 0);
  // All but the first block refault: 999 times 256 pages at 1,100 ns, 281.3 ms. That is below the 500 ms in the kernel.
  EXPECT_NEAR(pool->counted_ns, 999.0 * 256 * 1100, 1e3);
  EXPECT_EQ(pool->saving_ns, 0) << "nothing is predicted";
}

TEST(advice, faults_never_cost_more_than_the_time_in_the_kernel) {
  small_program program;
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  program.p.counters[0].system_ns = 2816e5 / 10;
  fit_costs(program.p);
  const std::vector<advice> all = advise(program.p);
  // The time in the kernel is a tenth of what the faults would cost; it is sampled at ticks of 4 ms, so it may be more.
  EXPECT_GE(all[0].counted_ns, 999.0 * 256 * 110);
  EXPECT_LE(all[0].counted_ns, 999.0 * 256 * 110 + 4e6 + std::sqrt(2816e4 * 4e6));
}

TEST(advice, nothing_is_counted_above_what_the_program_spends) {
  small_program program;
  site& one = program.add({"decode()"}, 64, 5e6);
  one.figures.malloc_ns = 9e8;
  one.figures.peak_bytes = one.figures.bytes_at_peak = 64 << 20;
  program.p.counters[0].user_ns = 95e7;
  program.p.counters[0].system_ns = 5e7;
  for (const advice& each : advise(program.p)) {
    EXPECT_LE(each.counted_ns, 1e9) << each.headline;
    EXPECT_LE(each.share, 1) << each.headline;
  }
}

// A parser's site is reached by thousands of paths; each reuses memory that the others have freed.
TEST(advice, peaks_of_paths_that_take_turns_are_not_added_up) {
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
TEST(advice, memory_that_places_take_turns_in_is_taken_again) {
  small_program program;
  for (int place = 0; place < 100; ++place) {
    site& one = program.add({"stage" + std::to_string(place) + "()"}, 1 << 20, 2);
    one.figures.faults = one.figures.fault_pages = 512;
    one.figures.peak_bytes = 2 << 20;
    one.figures.bytes_at_peak = place == 0 ? 2 << 20 : 0;
  }
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  EXPECT_NEAR(all[0].counted_ns, 99.0 * 512 * 1100, 1e3);
}

// Without root, faults in kernel mode, as in read(), are not recorded; the kernel only counts them.
TEST(advice, faults_that_only_the_kernel_counted_belong_to_large_blocks_found_in_memory) {
  small_program program;
  site& one = program.add({"load()"}, 1 << 20, 1000);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 1 << 20;
  one.figures.checked_bytes = one.figures.resident_bytes = one.figures.bytes;
  const std::vector<advice> none = advise(program.p);
  EXPECT_EQ(none[0].kind, advice_kind::leave_it) << "the kernel counted no fault";
  program.p.unseen_faults = 1000 * 256;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  EXPECT_NEAR(all[0].counted_ns, 999.0 * 256 * 1100, 1e3);
  program.p.meta["fault_period"] = 1;
  program.p.unseen_faults = 100 * 256;
  EXPECT_NEAR(advise(program.p)[0].counted_ns, 99.0 * 256 * 1100, 1e3);
}

// perf_event_open is refused, as in a container, and a heap of small blocks is trimmed and grows again.
TEST(advice, where_no_fault_is_seen_small_blocks_have_those_that_the_kernel_counted) {
  small_program program;
  site& one = program.add({"work()"}, 64, 1e6);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 4096 * 1000;
  one.figures.usable_bytes = one.figures.bytes - 8 * one.figures.allocations;
  program.p.unseen_faults = 103000;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  EXPECT_NEAR(all[0].counted_ns, 100000.0 * 1100, 1e3);
  program.p.meta["fault_period"] = 1;
  EXPECT_EQ(find(advise(program.p), advice_kind::tunable), nullptr)
      << "faults were recorded, and none was in a block";
}

// A list whose nodes lie scattered: another malloc may save most of the program's time, although malloc takes little.
TEST(advice, where_blocks_may_lie_badly_only_a_run_tells) {
  small_program program;
  site& one = program.add({"build()"}, 40, 1e6);
  one.figures.peak_bytes = one.figures.bytes_at_peak = 4e7;
  one.figures.malloc_ns = 1e6;
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::placement) << "it is not left alone before it was run";
  EXPECT_EQ(all[0].counted_ns, 0);
  EXPECT_EQ(all[0].change, "tarn prove FILE");
  EXPECT_EQ(say_figures(all[0]), "only a run can tell");
  EXPECT_NE(all[0].evidence[0].find("38.1 MiB in blocks of at most 1 KiB"), std::string::npos)
      << all[0].evidence[0];
  program.p.sites[0].figures.bytes_at_peak = 1e6;
  EXPECT_EQ(find(advise(program.p), advice_kind::placement), nullptr) << "fits into the caches";
}

TEST(advice, where_faults_decide_the_tunable_comes_before_another_malloc) {
  small_program program;
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  const std::vector<advice> all = advise(program.p);
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  const advice* malloc = find(all, advice_kind::allocator);
  ASSERT_NE(malloc, nullptr);
  EXPECT_EQ(malloc->instead_of, 0);
}

TEST(advice, other_mallocs_get_no_glibc_tunable) {
  small_program program;
  program.p.meta["allocator"] = "/usr/lib/libjemalloc.so.2";
  make_refaulted(program.add({"decode()"}, 1 << 20, 1000));
  const std::vector<advice> all = advise(program.p);
  EXPECT_EQ(find(all, advice_kind::tunable), nullptr);
  EXPECT_EQ(find(all, advice_kind::allocator), nullptr);
  EXPECT_NE(find(all, advice_kind::buffer_pool), nullptr);
}

TEST(advice, one_size_in_one_thread_is_a_typed_pool) {
  small_program program;
  program.add({"book::insert(order&&)"}, 64, 5e6).type = "order";
  const advice* pool = find(advise(program.p), advice_kind::typed_pool);
  ASSERT_NE(pool, nullptr);
}

TEST(advice, typed_pool_says_what_to_write) {
  small_program program;
  program.add({"book::insert(order&&)"}, 64, 5e6).type = "order";
  const std::vector<advice> all = advise(program.p);
  const advice* pool = find(all, advice_kind::typed_pool);
  ASSERT_NE(pool, nullptr);
  EXPECT_NE(pool->change.find("tarn::pooled<order>"), std::string::npos) << pool->change;
  EXPECT_NE(pool->place.find("book::insert"), std::string::npos);
  EXPECT_NEAR(pool->counted_ns, 5e6 * 10, 1);
}

// Code below /usr belongs to a package, and native code below script lines to the interpreter: the reader cannot edit it.
TEST(advice, what_the_reader_cannot_do_comes_last) {
  small_program program;
  program.add({"lua_newtable"}, 64, 2e7);
  EXPECT_EQ(find(advise(program.p), advice_kind::typed_pool)->reach, advice_reach::own_code);
  program.p.modules = {{"/usr/bin/lua5.4", "", 0x1000, 0x100000, 0}};
  const std::vector<advice> all = advise(program.p);
  EXPECT_EQ(all[0].kind, advice_kind::allocator);
  const advice* pool = find(all, advice_kind::typed_pool);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->reach, advice_reach::package);
  EXPECT_GT(pool, find(all, advice_kind::allocator));
  EXPECT_EQ(all.back().kind, advice_kind::leave_it) << "nothing follows what speaks of all others";
  program.p.modules[0].path = "/usr/local/bin/mine";
  EXPECT_EQ(find(advise(program.p), advice_kind::typed_pool)->reach, advice_reach::own_code);
}

TEST(advice, the_installed_mallocs_are_named) {
  small_program program;
  program.add({"work()"}, 64, 2e7);
  advice_settings settings;
  settings.mallocs = {"tarn", "jemalloc", "mimalloc"};
  const std::vector<advice> all = advise(program.p, settings);
  const advice* other = find(all, advice_kind::allocator);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->evidence.back(),
            "installed here: tarn, jemalloc, mimalloc; which of them is best, only a run can tell");
}

TEST(advice, across_threads_it_is_an_object_pool) {
  small_program program;
  site& one = program.add({"session::on_message()"}, 192, 5e6);
  one.figures.foreign_frees = 4e6;
  const std::vector<advice> all = advise(program.p);
  EXPECT_NE(find(all, advice_kind::object_pool), nullptr);
  EXPECT_EQ(find(all, advice_kind::typed_pool), nullptr);
}

TEST(advice, arrays_of_a_container_get_no_typed_pool) {
  small_program program;
  program.add({"std::vector<int>::reserve(unsigned long)", "fill()"}, 64, 5e6);
  EXPECT_EQ(find(advise(program.p), advice_kind::typed_pool), nullptr);
}

TEST(advice, what_dies_in_batches_is_an_arena) {
  small_program program;
  site& one = program.add({"json::parse()"}, 48, 5e6);
  one.figures.batch_frees = 4.9e6;
  const std::vector<advice> all = advise(program.p);
  EXPECT_NE(find(all, advice_kind::arena), nullptr);
}

TEST(advice, few_samples_do_not_show_a_batch) {
  small_program program;
  program.p.mode = profile_mode::sample;
  site& one = program.add({"json::parse()"}, 48, 5e6);
  one.figures.batch_frees = 4.9e6;
  one.figures.samples = 7;
  EXPECT_EQ(find(advise(program.p), advice_kind::arena), nullptr);
  program.p.sites[0].figures.samples = 70;
  EXPECT_NE(find(advise(program.p), advice_kind::arena), nullptr);
}

TEST(advice, growing_step_by_step_is_reserve) {
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

TEST(advice, a_container_that_is_made_and_dropped_is_used_again) {
  small_program program;
  site& one = program.add({"std::vector<int>::vector(unsigned long)", "handle()"}, 400, 3e6);
  one.figures.malloc_ns = 3e7;
  const auto found = [&program] { return find(advise(program.p), advice_kind::reuse) != nullptr; };
  EXPECT_TRUE(found());
  const double lifetime = std::exchange(one.figures.lifetime_ns, 1e9 * one.figures.frees);
  EXPECT_FALSE(found());  // each lives for long
  one.figures.lifetime_ns = lifetime;
  one.figures.peak_bytes = one.figures.bytes;
  EXPECT_FALSE(found());  // all live at once
}

TEST(advice, constructors_that_allocate_are_recycled) {
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

TEST(advice, untouched_memory_is_a_remark_without_a_saving) {
  small_program program;
  site& one = program.add({"cache::reserve()"}, 64 << 20, 4);
  one.figures.checked_bytes = one.figures.bytes;
  one.figures.resident_bytes = one.figures.bytes / 20;
  const std::vector<advice> all = advise(program.p);
  const advice* less = find(all, advice_kind::ask_for_less);
  ASSERT_NE(less, nullptr);
  EXPECT_EQ(less->counted_ns, 0);
}

TEST(advice, what_samples_count_has_a_margin) {
  small_program program;
  site& one = program.add({"work()"}, 64, 5e6);
  EXPECT_EQ(say_figures(*find(advise(program.p), advice_kind::typed_pool)),
            "costs 50 ms now, 5.0 % of CPU time; counted");
  one.figures.malloc_variance = 1e14;
  EXPECT_EQ(say_figures(*find(advise(program.p), advice_kind::typed_pool)),
            "costs 50 ± 20 ms now, 5.0 % of CPU time; counted");
}

TEST(advice, of_every_profile_the_invariants_hold) {
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
      EXPECT_LE(0, one.counted_ns);
      EXPECT_EQ(one.saving_ns, 0);
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
