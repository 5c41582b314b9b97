// SPDX-License-Identifier: MIT
// apply_proof(): how measured results of `tarn prove` change the grade, saving and order of advice.
#include "profiler/analyze/advice.hpp"

#include <gtest/gtest.h>

#include "profiler/analyze/plan.hpp"

namespace tarn::profiler {
namespace {

proven_figure figure(double before, double ratio, double low, double high, proof_outcome outcome) {
  return {before, ratio, low, high, 0.95, outcome};
}

proof_way way(const std::string& name, advice_kind kind, proven_figure cpu) {
  proof_way made{.name = name, .kind = kind_name(kind), .headline = "Run it on " + name};
  made.of(proof_metric::cpu) = cpu;
  if (cpu.outcome == proof_outcome::less) made.decision = proof_decision::saves;
  if (cpu.outcome == proof_outcome::more) made.decision = proof_decision::costs;
  made.of(proof_metric::wall) = cpu;
  made.of(proof_metric::rss) = figure(1e6, 1, 0.99, 1.01, proof_outcome::none);
  made.of(proof_metric::faults) = figure(1e3, 1, 1, 1, proof_outcome::none);
  return made;
}

advice allocator_advice() {
  return {.kind = advice_kind::allocator,
          .headline = "Run it on another malloc: no code changes",
          .counted_ns = 5e8,
          .share = 0.25};
}

profile measured(std::vector<proof_way> ways) {
  profile p;
  p.stacks.emplace_back();
  p.meta = {{"program", "/bin/p"}, {"duration_ns", 1e9}};
  p.proven.rounds = 12;
  p.proven.ways = std::move(ways);
  return p;
}

const proven_figure is_less = figure(2, 0.8, 0.78, 0.83, proof_outcome::less);
const proven_figure saves_little = figure(2, 0.995, 0.992, 0.999, proof_outcome::none);
const proven_figure undecided = figure(2, 0.97, 0.9, 1.04, proof_outcome::none);
const proven_figure is_more = figure(2, 1.2, 1.1, 1.3, proof_outcome::more);

TEST(advice_proof, advice_of_another_malloc_takes_the_figures_of_the_best_one) {
  proof_way jemalloc = way("jemalloc", advice_kind::allocator, is_less);
  jemalloc.library = "/usr/lib/libjemalloc.so.2";
  const profile p = measured({way("tarn", advice_kind::allocator, is_more), jemalloc});
  std::vector<advice> all = {allocator_advice()};
  apply_proof(p, all);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].grade, advice_grade::measured);
  EXPECT_NEAR(all[0].saving_ns, 2e9 * 0.2, 1);
  EXPECT_NEAR(all[0].low_ns, 2e9 * 0.17, 1);
  EXPECT_NEAR(all[0].high_ns, 2e9 * 0.22, 1);
  EXPECT_NEAR(all[0].share, 0.2, 1e-9);
  EXPECT_NE(all[0].change.find("LD_PRELOAD=/usr/lib/libjemalloc.so.2"), std::string::npos);
  const plan plan = plan_of(p, all);
  EXPECT_EQ(plan.library, "/usr/lib/libjemalloc.so.2");
  EXPECT_FALSE(plan.on_tarn);
  EXPECT_EQ(read_plan(write_plan(plan), "plan").library, plan.library);
}

TEST(advice_proof, a_proven_malloc_comes_before_an_undecided_one) {
  proof_way noisy = way("mimalloc", advice_kind::allocator, figure(2, 0.7, 0.4, 1.3, proof_outcome::none));
  std::vector<advice> all = {allocator_advice()};
  apply_proof(measured({noisy, way("jemalloc", advice_kind::allocator, is_less)}), all);
  EXPECT_EQ(all[0].grade, advice_grade::measured);
  EXPECT_EQ(all[0].headline, "Run it on jemalloc: no code changes");
}

proof_way took_less(const std::string& name, double ratio, int rounds) {
  proof_way made =
      way(name, advice_kind::allocator, figure(2, ratio, ratio - 0.15, 1.04, proof_outcome::none));
  made.rounds = rounds;
  return made;
}

TEST(advice_proof, a_way_that_took_less_but_not_beyond_noise_is_named_as_undecided) {
  const profile p = measured({took_less("tarn", 0.98, 2), took_less("tcmalloc", 0.8, 2)});
  for (std::vector<advice> all : {std::vector<advice>{allocator_advice()}, std::vector<advice>{}}) {
    apply_proof(p, all);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].grade, advice_grade::undecided);
    EXPECT_EQ(all[0].headline, "Run it on tcmalloc: no code changes");
    EXPECT_EQ(say_figures(all[0]), "took 20 % less CPU time (4.0 % more to 35 % less); undecided");
  }
}

TEST(advice_proof, an_undecided_way_says_the_memory_that_it_takes) {
  proof_way more = took_less("tcmalloc", 0.8, 2);
  more.of(proof_metric::rss) = figure(0x1p30, 1.25, 1.2, 1.3, proof_outcome::more);
  std::vector<advice> all;
  apply_proof(measured({more}), all);
  EXPECT_TRUE(say_figures(all.at(0)).ends_with("; undecided; 256 MiB more resident at the peak"))
      << say_figures(all[0]);
}

TEST(advice_proof, one_round_or_an_effect_below_what_is_worthwhile_is_no_advice) {
  std::vector<advice> all;
  apply_proof(measured({took_less("tarn", 0.8, 1), took_less("tcmalloc", 0.98, 5)}), all);
  EXPECT_TRUE(all.empty());
}

TEST(advice_proof, an_undecided_setting_comes_before_an_edit_of_four_times_its_cost) {
  advice edit{.kind = advice_kind::reserve, .reach = advice_reach::own_code, .share = 0.5};
  const profile p = measured({took_less("tcmalloc", 0.8, 2)});
  std::vector<advice> all = {edit};
  apply_proof(p, all);
  EXPECT_EQ(arrange_advice(p, all)[0].grade, advice_grade::undecided);
  all[0].share = 0.95;
  EXPECT_EQ(arrange_advice(p, all)[0].kind, advice_kind::reserve);
}

TEST(advice_proof, a_saving_is_a_share_of_the_measured_time) {
  proof_way keep = way("keep-memory", advice_kind::tunable, is_less);
  keep.variables = {{"GLIBC_TUNABLES", "glibc.malloc.mmap_max=0"}};
  const std::vector<advice> all = advise(measured({keep}));
  // A fifth of the 2 s that the repeats took, not 0.4 s of the 1 s that was recorded.
  EXPECT_EQ(say_figures(all[0]), "saves 400 ms (340 ms to 440 ms), 20 % of CPU time; measured");
  EXPECT_EQ(all.back().kind, advice_kind::leave_it);
}

TEST(advice_proof, what_gains_nothing_is_refuted_and_not_advised) {
  for (const proof_decision decision : {proof_decision::no_gain, proof_decision::costs}) {
    proof_way tarn = way("tarn", advice_kind::allocator, saves_little);
    tarn.decision = decision;
    const profile p = measured({tarn});
    std::vector<advice> all = {allocator_advice()};
    apply_proof(p, all);
    EXPECT_EQ(all[0].grade, advice_grade::refuted);
    const std::vector<advice> arranged = arrange_advice(p, all);
    ASSERT_EQ(arranged.size(), 2U);
    EXPECT_EQ(arranged[0].kind, advice_kind::leave_it);
    EXPECT_EQ(arranged[1].grade, advice_grade::refuted);
    EXPECT_FALSE(plan_of(p, arranged).on_tarn);
  }
}

TEST(advice_proof, what_the_rounds_do_not_decide_stays_counted) {
  for (const proof_decision decision : {proof_decision::undecided, proof_decision::behind}) {
    proof_way tarn = way("tarn", advice_kind::allocator, undecided);
    tarn.decision = decision;
    std::vector<advice> all = {allocator_advice()};
    apply_proof(measured({tarn}), all);
    EXPECT_EQ(all[0].grade, advice_grade::counted);
    EXPECT_EQ(all[0].saving_ns, 0);
    EXPECT_EQ(all[0].share, 0.25);
    ASSERT_EQ(all[0].evidence.size(), 1U);
    EXPECT_NE(all[0].evidence[0].find("no difference beyond noise"), std::string::npos) << all[0].evidence[0];
  }
}

// Two mallocs took less, so its one round has no bounds.
TEST(advice_proof, a_way_that_was_not_measured_further_says_so) {
  proof_way tarn = way("tarn", advice_kind::allocator, {2, 0.52, 0.52, 0.52, 0, proof_outcome::none});
  tarn.decision = proof_decision::behind;
  tarn.rounds = 1;
  std::vector<advice> all = {allocator_advice()};
  apply_proof(measured({tarn}), all);
  ASSERT_EQ(all[0].evidence.size(), 1U);
  EXPECT_TRUE(all[0].evidence[0].starts_with("tarn prove, 1 round, tarn: CPU time 48 % less; "))
      << all[0].evidence[0];
  EXPECT_TRUE(all[0].evidence[0].ends_with("; not measured further, as another way took less"))
      << all[0].evidence[0];
}

TEST(advice_proof, a_way_that_gains_without_advice_becomes_advice) {
  proof_way keep = way("keep-memory", advice_kind::tunable, is_less);
  keep.variables = {{"GLIBC_TUNABLES", "glibc.malloc.mmap_max=0"}};
  const std::vector<advice> all = advise(measured({keep, way("tarn", advice_kind::allocator, is_more)}));
  ASSERT_EQ(all[0].kind, advice_kind::tunable);
  EXPECT_EQ(all[0].grade, advice_grade::measured);
  EXPECT_EQ(all[0].variables[0].value, "glibc.malloc.mmap_max=0");
}

TEST(advice_proof, a_proof_of_a_pool_applies_to_advice_for_its_place_alone) {
  advice pool{.kind = advice_kind::typed_pool, .place = "a.cpp:1 make", .share = 0.1};
  proof_way other = way("pool-1", advice_kind::typed_pool, is_less);
  other.place = "b.cpp:1 make";
  std::vector<advice> all = {pool};
  apply_proof(measured({other}), all);
  EXPECT_EQ(all[0].grade, advice_grade::counted);
  other.place = pool.place;
  apply_proof(measured({other}), all);
  EXPECT_EQ(all[0].grade, advice_grade::measured);
}

TEST(advice_proof, what_the_program_fails_under_is_refuted) {
  proof_way failed = way("tarn", advice_kind::allocator, is_more);
  failed.failure = "exit status 3";
  advice made = allocator_advice();
  made.change = "tarn prove FILE";
  std::vector<advice> all = {made};
  const profile p = measured({failed});
  apply_proof(p, all);
  EXPECT_EQ(all[0].grade, advice_grade::refuted);
  EXPECT_EQ(say_figures(all[0]), "the program fails with it; measured");
  EXPECT_EQ(all[0].change, "");
  ASSERT_EQ(all[0].evidence.size(), 1U);
  EXPECT_EQ(all[0].evidence[0], "tarn prove: the program fails under tarn: exit status 3");
  EXPECT_EQ(arrange_advice(p, all)[0].kind, advice_kind::leave_it);
  // One that works represents all of them.
  all = {made};
  apply_proof(measured({failed, way("jemalloc", advice_kind::allocator, is_less)}), all);
  EXPECT_EQ(all[0].grade, advice_grade::measured);
  EXPECT_EQ(all[0].evidence.size(), 2U);
}

TEST(advice_proof, what_is_far_within_noise_is_not_named) {
  std::vector<advice> all;
  proof_way noise = took_less("tarn", 0.95, 5);
  noise.of(proof_metric::cpu).high = 1.4;
  apply_proof(measured({noise}), all);
  EXPECT_TRUE(all.empty());
}

}  // namespace
}  // namespace tarn::profiler
