// SPDX-License-Identifier: MIT
// evaluate_rounds() and the verdict of `tarn prove`, from made-up rounds.
#include "cli/compare/proof_rounds.hpp"

#include <gtest/gtest.h>

#include "cli/compare/comparison_report.hpp"
#include "cli/compare/proof_report.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {
namespace {

using profiler::proof_metric;
using profiler::proof_outcome;

constexpr int rounds = 12;

contender_result result(const std::string& name, double cpu, double mib) {
  contender_result made{{name, "", {}}, {}, {}, {}};
  for (int round = 0; round < rounds; ++round) {
    const double factor = 1 + 0.01 * (round % 4);  // a slow round is slow for every contender
    made.rounds.push_back({cpu * factor, cpu * factor, mib * 1048576, 1000, 0});
  }
  return made;
}

proof_action action(const std::string& name, const std::string& kind) {
  proof_action made;
  made.is_layered = name.starts_with("pool-");
  made.who.name = name;
  made.told.name = name;
  made.told.kind = kind;
  return made;
}

comparison_outcome outcome_of(std::vector<contender_result> results) {
  comparison_outcome outcome;
  outcome.rounds = rounds;
  outcome.results = std::move(results);
  outcome.usual_exit = 0;
  return outcome;
}

std::string verdict(const profiler::proof& what) { return join(render_proof_verdict(what), "\n"); }

TEST(proof_rounds, each_way_is_held_against_the_unchanged_program) {
  const auto outcome =
      outcome_of({result("unchanged", 2, 100), result("jemalloc", 1.5, 110), result("one-arena", 2, 80)});
  const auto what =
      evaluate_rounds(outcome, {action("jemalloc", "another malloc"), action("one-arena", "tunable")});
  ASSERT_EQ(what.ways.size(), 2U);
  const auto& cpu = what.ways[0].of(proof_metric::cpu);
  EXPECT_EQ(cpu.outcome, proof_outcome::less);
  EXPECT_NEAR(cpu.ratio, 0.75, 1e-9);
  EXPECT_GE(cpu.confidence, 0.975);
  EXPECT_EQ(what.ways[0].of(proof_metric::rss).outcome, proof_outcome::more);
  EXPECT_EQ(what.ways[1].of(proof_metric::cpu).outcome, proof_outcome::none);
  const std::string text = verdict(what);
  EXPECT_NE(text.find("Verdict: jemalloc saves"), std::string::npos) << text;
  EXPECT_NE(text.find("25 % of CPU time"), std::string::npos) << text;
  EXPECT_NE(text.find("one-arena takes 20 MiB less memory at its peak, 20 %"), std::string::npos) << text;
}

TEST(proof_rounds, the_price_of_the_layer_is_taken_off_the_pools) {
  // The layer for pools costs 0.3 s: tarn takes 1.9 s with it and 1.6 s without.
  const auto outcome = outcome_of({result("unchanged", 2, 100), result("tarn", 1.6, 100),
                                   result("pool-1", 1.7, 100), result("layer", 1.9, 100)});
  const auto what = evaluate_rounds(outcome, {action("tarn", "another malloc"),
                                              action("pool-1", "typed pool"), action("layer", layer_kind)});
  EXPECT_NEAR(what.ways[1].layer_seconds, 0.3 * 1.015, 0.001);
  EXPECT_NEAR(what.ways[1].of(proof_metric::cpu).ratio, 0.7, 0.001);
  EXPECT_DOUBLE_EQ(what.ways[0].layer_seconds, 0);
  EXPECT_NEAR(what.ways[2].of(proof_metric::cpu).ratio, 0.95, 0.001)
      << "the layer's own row includes its price";
  const std::string text = verdict(what);
  EXPECT_NE(text.find("pool-1: CPU time -15.0 % with the layer for pools, -30.0 % without"),
            std::string::npos)
      << text;
}

TEST(proof_rounds, none_of_them_gains) {
  const auto outcome =
      outcome_of({result("unchanged", 2, 100), result("tarn", 2.1, 130), result("jemalloc", 2.001, 120)});
  const auto what =
      evaluate_rounds(outcome, {action("tarn", "another malloc"), action("jemalloc", "another malloc")});
  EXPECT_EQ(verdict(what),
            "Verdict: no gain; no way takes less time than the unchanged program beyond noise.");
}

TEST(proof_rounds, a_way_that_fails_has_no_figures) {
  auto failed = result("tarn", 1, 1);
  failed.failure = "exit status 1";
  const auto what =
      evaluate_rounds(outcome_of({result("unchanged", 2, 100), failed}), {action("tarn", "another malloc")});
  EXPECT_EQ(what.ways[0].failure, "exit status 1");
  EXPECT_EQ(verdict(what), "Verdict: nothing was measured, as no way works for this program.");
}

TEST(proof_rounds, few_rounds_are_reported) {
  EXPECT_EQ(rounds_for_intervals(1), 6);
  EXPECT_EQ(rounds_for_intervals(2), 7);
  EXPECT_EQ(rounds_for_intervals(8), 9);
  auto outcome = outcome_of({result("unchanged", 2, 100), result("tarn", 1, 100)});
  for (contender_result& each : outcome.results) each.rounds.resize(3);
  outcome.rounds = 3;
  const std::string text = verdict(evaluate_rounds(outcome, {action("tarn", "another malloc")}));
  EXPECT_NE(text.find("3 rounds are not enough"), std::string::npos) << text;
  EXPECT_NE(text.find("tarn saves"), std::string::npos) << text;
}

}  // namespace
}  // namespace tarn::cli
