// SPDX-License-Identifier: MIT
// proof_course and the verdict of `tarn prove`, from made-up rounds.
#include "cli/compare/proof_course.hpp"

#include <gtest/gtest.h>

#include <random>

#include "cli/compare/proof_report.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {
namespace {

using profiler::proof_decision;
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
  made.way.name = name;
  made.way.kind = kind;
  return made;
}

comparison_outcome outcome_of(std::vector<contender_result> results) {
  return {.results = std::move(results), .rounds = rounds, .usual_exit = 0};
}

// All ways in all rounds.
profiler::proof evaluate_rounds(const comparison_outcome& outcome, const std::vector<proof_action>& actions) {
  course_settings settings;
  settings.stops = false;
  return proof_course(actions, settings).result(outcome);
}

std::string verdict(const profiler::proof& what) { return join(render_proof_verdict(what), "\n"); }

TEST(proof_course, each_way_is_held_against_the_unchanged_program) {
  const auto outcome =
      outcome_of({result("unchanged", 2, 100), result("jemalloc", 1.5, 110), result("one-arena", 2, 80)});
  const auto what =
      evaluate_rounds(outcome, {action("jemalloc", "another malloc"), action("one-arena", "tunable")});
  ASSERT_EQ(what.ways.size(), 2U);
  const auto& cpu = what.ways[0].of(proof_metric::cpu);
  EXPECT_EQ(cpu.outcome, proof_outcome::less);
  EXPECT_NEAR(cpu.ratio, 0.75, 1e-9);
  EXPECT_EQ(cpu.confidence, proof_confidence);
  EXPECT_EQ(what.ways[0].decision, proof_decision::saves);
  EXPECT_EQ(what.ways[1].decision, proof_decision::no_gain);
  EXPECT_EQ(what.ways[0].rounds, rounds);
  EXPECT_EQ(what.ways[0].of(proof_metric::rss).outcome, proof_outcome::more);
  EXPECT_EQ(what.ways[1].of(proof_metric::cpu).outcome, proof_outcome::none);
  const std::string text = verdict(what);
  EXPECT_NE(text.find("Verdict: jemalloc saves"), std::string::npos) << text;
  EXPECT_NE(text.find("25 % of CPU time"), std::string::npos) << text;
  EXPECT_NE(text.find("one-arena takes 20 MiB less memory at its peak, 20 %"), std::string::npos) << text;
}

TEST(proof_course, the_price_of_the_layer_is_taken_off_the_pools) {
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

TEST(proof_course, none_of_them_gains) {
  const auto outcome =
      outcome_of({result("unchanged", 2, 100), result("tarn", 2.1, 130), result("jemalloc", 2.001, 120)});
  const auto what =
      evaluate_rounds(outcome, {action("tarn", "another malloc"), action("jemalloc", "another malloc")});
  const std::string text = verdict(what);
  EXPECT_TRUE(text.starts_with("Verdict: no gain; no way takes less CPU time.\n")) << text;
  EXPECT_NE(text.find("Saves less than 3 %, if anything: jemalloc"), std::string::npos) << text;
  EXPECT_NE(text.find("Takes more CPU time: tarn +5.0 ("), std::string::npos) << text;
}

TEST(proof_course, a_way_that_fails_has_no_figures) {
  auto failed = result("tarn", 1, 1);
  failed.failure = "exit status 1";
  const auto what =
      evaluate_rounds(outcome_of({result("unchanged", 2, 100), failed}), {action("tarn", "another malloc")});
  EXPECT_EQ(what.ways[0].failure, "exit status 1");
  EXPECT_EQ(verdict(what), "Verdict: nothing was measured, as no way works for this program.");
}

// A program whose runs vary, and what a proof of it comes to, round by round.
struct simulation {
  std::mt19937_64 random;
  std::vector<double> ratios;  // of the ways
  double noise = 0.01;
  std::student_t_distribution<double> spread{4};  // as machines are: a run may be far off

  struct outcome {
    profiler::proof what;
    std::size_t runs = 0;
  };

  outcome run(const course_settings& settings, int most_rounds) {
    std::vector<proof_action> actions;
    comparison_outcome rounds_so_far;
    rounds_so_far.results.push_back({{"unchanged", "", {}}, {}, {}, {}});
    for (std::size_t index = 0; index < ratios.size(); ++index) {
      actions.push_back(action("way-" + std::to_string(index), "another malloc"));
      rounds_so_far.results.push_back({actions.back().who, {}, {}, {}});
    }
    proof_course course(actions, settings);
    std::vector<bool> further(ratios.size() + 1, true);
    outcome found;
    while (rounds_so_far.rounds < most_rounds && std::count(further.begin(), further.end(), true) > 1) {
      const double slow = std::exp(5 * noise * spread(random));  // the whole round
      for (std::size_t index = 0; index < further.size(); ++index) {
        if (!further[index]) continue;
        const double cpu = slow * (index == 0 ? 1 : ratios[index - 1]) * std::exp(noise * spread(random));
        rounds_so_far.results[index].rounds.push_back({cpu, cpu, 1e6, 1000, 0});
        ++found.runs;
      }
      ++rounds_so_far.rounds;
      const std::vector<bool> next = course.after_round(rounds_so_far);
      for (std::size_t index = 1; index < next.size(); ++index)
        further[index] = further[index] && next[index];
    }
    found.what = course.result(rounds_so_far);
    return found;
  }
};

std::size_t count(const profiler::proof& what, proof_decision decision) {
  return static_cast<std::size_t>(std::count_if(what.ways.begin(), what.ways.end(),
                                                [&](const auto& way) { return way.decision == decision; }));
}

TEST(proof_course, looking_after_each_round_keeps_the_confidence) {
  constexpr int proofs = 500;
  for (const bool chooses : {true, false}) {
    simulation same{std::mt19937_64(chooses ? 1 : 2), {1, 1, 1, 1}};
    course_settings settings;
    settings.chooses = chooses;
    int wrong = 0;
    for (int proof = 0; proof < proofs; ++proof)
      wrong += count(same.run(settings, 30).what, proof_decision::saves) > 0 ? 1 : 0;
    EXPECT_LT(wrong, 0.05 * proofs) << chooses;
  }
}

TEST(proof_course, clear_ways_are_decided_in_few_runs) {
  simulation clear{std::mt19937_64(3), {0.7, 0.72, 0.95, 1.1}};
  std::size_t runs = 0;
  int right = 0;
  for (int proof = 0; proof < 200; ++proof) {
    const auto found = clear.run({}, 30);
    runs += found.runs;
    right += found.what.ways[0].decision == proof_decision::saves ? 1 : 0;
    EXPECT_EQ(found.what.ways[3].decision, proof_decision::behind) << "the last of four after one round";
    EXPECT_EQ(found.what.ways[3].rounds, 1);
    EXPECT_EQ(found.what.ways[3].of(proof_metric::cpu).confidence, 0);
  }
  EXPECT_GE(right, 190);
  EXPECT_LT(runs, 200U * 16) << "five in the first round, then four, then what is not decided";
}

TEST(proof_course, while_time_is_cheap_the_best_of_the_ways_that_save_is_found) {
  simulation noisy{std::mt19937_64(7), {0.66, 0.72, 0.7}};
  noisy.noise = 0.04;
  course_settings cheap;
  cheap.least_seconds = 60;
  int best = 0;
  for (int proof = 0; proof < 100; ++proof) {
    const auto found = noisy.run(cheap, 40);
    const auto ratio = [&](std::size_t way) { return found.what.ways[way].of(proof_metric::cpu).ratio; };
    best += ratio(0) < ratio(1) && ratio(0) < ratio(2) ? 1 : 0;
    for (const auto& way : found.what.ways) EXPECT_NE(way.decision, proof_decision::undecided);
  }
  EXPECT_GE(best, 97) << "89 without further rounds";
}

TEST(proof_course, a_way_that_saves_alone_is_not_measured_further) {
  simulation clear{std::mt19937_64(8), {0.5}};
  course_settings cheap;
  cheap.least_seconds = 60;
  EXPECT_LE(clear.run(cheap, 20).what.rounds, 4);
}

TEST(proof_course, useless_ways_end_the_proof) {
  simulation useless{std::mt19937_64(4), {1, 1.002}};
  int decided = 0;
  for (int proof = 0; proof < 100; ++proof) {
    const auto found = useless.run({}, 40);
    decided += count(found.what, proof_decision::undecided) == 0 ? 1 : 0;
  }
  EXPECT_GE(decided, 95);
}

TEST(proof_course, what_is_decided_stays_and_is_not_measured_further) {
  simulation mixed{std::mt19937_64(5), {2, 1}};
  mixed.noise = 0.03;
  const auto found = mixed.run({}, 40);
  const auto& costly = found.what.ways[0];
  EXPECT_EQ(costly.decision, proof_decision::costs);
  EXPECT_LT(costly.rounds, found.what.ways[1].rounds);
  EXPECT_GT(costly.of(proof_metric::cpu).low, 1.01);
}

TEST(proof_course, what_cannot_reach_the_best_way_is_left_behind) {
  simulation mixed{std::mt19937_64(5), {0.5, 1}};
  const auto found = mixed.run({}, 40);
  EXPECT_EQ(found.what.ways[0].decision, proof_decision::saves);
  EXPECT_EQ(found.what.ways[1].decision, proof_decision::behind);
  EXPECT_LT(found.what.rounds, 6);
}

TEST(proof_course, what_does_not_fit_into_the_limit_is_not_begun) {
  course_settings settings;
  settings.limit_seconds = 1e-9;  // over before the first look
  simulation late{std::mt19937_64(6), {0.5, 0.6, 1}};
  const auto found = late.run(settings, 40);
  EXPECT_EQ(found.what.rounds, 1);
  EXPECT_EQ(count(found.what, proof_decision::undecided), 3U);
  const std::string text = verdict(found.what);
  EXPECT_TRUE(text.starts_with("Verdict: undecided; ")) << text;
  EXPECT_NE(text.find("Undecided after 1 round: way-0 "), std::string::npos) << text;
  EXPECT_NE(text.find("--for"), std::string::npos) << text;
}

}  // namespace
}  // namespace tarn::cli
