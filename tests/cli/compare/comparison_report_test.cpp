// SPDX-License-Identifier: MIT
// The table, verdict, exit code and JSON of `tarn compare`, from made-up runs.
#include "cli/compare/comparison_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {
namespace {

contender_result result_of(const std::string& name, double seconds, double mib, int rounds = 10) {
  contender_result made{{name, name == system_name ? "" : "/lib" + name + ".so"}, {}, {}, {}};
  for (int round = 0; round < rounds; ++round) {
    // Every contender has the same noise: a slow round is slow for all of them.
    const double factor = 1 + 0.01 * (round % 4);
    made.rounds.push_back({seconds * factor, seconds * factor, mib * 1048576, 1000, 0});
  }
  return made;
}

comparison_outcome outcome_with(std::vector<contender_result> results) {
  const auto rounds = static_cast<int>(results.front().rounds.size());
  return {.results = std::move(results), .rounds = rounds, .usual_exit = 0};
}

std::string verdict_text(const comparison_outcome& outcome) { return join(render_verdict(outcome), "\n"); }

TEST(comparison_report, says_when_there_is_no_difference) {
  const auto outcome = outcome_with({result_of("system", 1, 10), result_of("tarn", 1.003, 10)});
  EXPECT_EQ(verdict_text(outcome), "Verdict: no difference beyond noise, in time or in memory.");
  EXPECT_EQ(exit_code_of(outcome, false), exit_code::success);
}

TEST(comparison_report, the_verdict_names_amount_and_reference) {
  const auto outcome =
      outcome_with({result_of("system", 1, 10), result_of("tarn", 0.8, 25), result_of("other", 0.8, 20)});
  const std::string text = verdict_text(outcome);
  EXPECT_NE(
      text.find("wall time, tarn: 20 % less (20 to 20) than system; no difference beyond noise from other"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find("peak RSS, tarn: 2.5 times (2.5 to 2.5) that of system; 25 % more (25 to 25) than other"),
      std::string::npos)
      << text;
}

TEST(comparison_report, gives_no_verdict_on_a_peak_that_cannot_be_told) {
  auto outcome = outcome_with({result_of("system", 1, 1), result_of("tarn", 0.5, 1)});
  outcome.least_peak_rss = 0x1p21;
  ASSERT_FALSE(outcome.doubt_about_peak().empty());
  EXPECT_EQ(verdict_text(outcome).find("peak RSS"), std::string::npos) << verdict_text(outcome);
  outcome = outcome_with({result_of("system", 1, 1), result_of("tarn", 1, 1.5)});
  outcome.least_peak_rss = 0x1p21;
  EXPECT_EQ(verdict_text(outcome), "Verdict: no difference beyond noise, in time.");
  for (const pairwise_verdict& verdict : judge_all(outcome)) EXPECT_NE(verdict.metric, "peak RSS");
}

TEST(comparison_report, says_when_rounds_are_few) {
  const auto outcome = outcome_with({result_of("system", 1, 10, 3), result_of("tarn", 0.5, 10, 3)});
  EXPECT_NE(verdict_text(outcome).find("3 rounds are few"), std::string::npos);
}

TEST(comparison_report, one_round_is_not_many_and_decides_nothing) {
  const auto outcome = outcome_with({result_of("system", 1, 10, 1), result_of("tarn", 0.5, 10, 1)});
  EXPECT_NE(render_table(outcome, false).find("medians of 1 round; below"), std::string::npos);
  EXPECT_EQ(verdict_text(outcome).find("Verdict: none; 1 round cannot show a difference. More: -r 10"), 0U);
  const auto two = outcome_with({result_of("system", 1, 10, 2), result_of("tarn", 0.5, 10, 2)});
  EXPECT_NE(render_table(two, false).find("medians of 2 rounds; below"), std::string::npos);
  EXPECT_EQ(verdict_text(two).find("Verdict: none; 2 rounds cannot show a difference"), 0U);
}

TEST(comparison_report, table_and_verdict_tell_one_ratio) {
  // The medians are 1.000 ms and 1.200 ms, so their ratio is 1.2; the median of the rounds' ratios would be 1.29.
  contender_result slow{{"tarn", "/libtarn.so"}, {}, {}, {}};
  contender_result quick{{system_name, ""}, {}, {}, {}};
  const double slow_ms[] = {1.2003, 1.16, 1.31};
  const double quick_ms[] = {0.93, 0.99997, 1.016};
  for (int round = 0; round < 3; ++round) {
    slow.rounds.push_back({slow_ms[round] * 1e-3, 1, 1 << 20, 1, 0});
    quick.rounds.push_back({quick_ms[round] * 1e-3, 1, 1 << 20, 1, 0});
  }
  const auto outcome = outcome_with({quick, slow});
  EXPECT_NE(render_table(outcome, false).find("1.20 \u00b1"), std::string::npos);
  EXPECT_NE(verdict_text(outcome).find("wall time, tarn: 20 % more"), std::string::npos)
      << verdict_text(outcome);
  EXPECT_DOUBLE_EQ(as_json(outcome)["verdicts"][0]["ratio"].get<double>(), 1.2);
}

TEST(comparison_report, the_table_is_aligned_and_marks_the_ratio_to_the_best) {
  const std::string table =
      render_table(outcome_with({result_of("system", 1, 10), result_of("tarn", 0.5, 20)}), false);
  std::size_t width = 0;
  std::size_t begin = 0;
  for (int line = 0; line < 9; ++line) {
    const std::size_t end = table.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    const std::size_t columns = display_width(table.substr(begin, end - begin));
    if (line == 0) width = columns;
    EXPECT_EQ(columns, width) << table;
    begin = end + 1;
  }
  EXPECT_NE(table.find("2.00 \u00b1"), std::string::npos);
  EXPECT_EQ(table.find("major"), std::string::npos);
  EXPECT_EQ(table.find('\033'), std::string::npos);
}

TEST(comparison_report, five_columns_fit_on_eighty_and_fewer_stand_in_blocks) {
  const auto outcome =
      outcome_with({result_of("system", 1, 10), result_of("tarn", 0.5, 20), result_of("jemalloc", 1, 9),
                    result_of("mimalloc", 1, 9), result_of("tcmalloc", 2, 9)});
  const auto widest = [](const std::string& text) {
    std::size_t most = 0;
    for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
      most = std::max(most, display_width(text.substr(begin, text.find('\n', begin) - begin)));
    return most;
  };
  const auto count = [](const std::string& text, const std::string& word) {
    int found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  const std::string whole = render_table(outcome, false, 80);
  EXPECT_LE(widest(whole), 80U) << whole;
  EXPECT_EQ(count(whole, "wall time"), 1) << whole;
  const std::string narrow = render_table(outcome, false, 40);
  EXPECT_LE(widest(narrow), 40U) << narrow;
  EXPECT_EQ(count(narrow, "wall time"), 3) << narrow;
  const std::string tables = narrow.substr(0, narrow.find("medians of"));
  for (const char* name : {"system", "tarn", "jemalloc", "mimalloc", "tcmalloc"})
    EXPECT_EQ(count(tables, name), 1) << narrow;
  EXPECT_EQ(count(whole, "tarn: /libtarn.so; jemalloc: /libjemalloc.so;"), 1) << whole;
}

TEST(comparison_report, without_figures_the_verdict_says_so) {
  auto outcome = outcome_with({result_of("system", 1, 10, 0), result_of("tarn", 1, 10, 0)});
  for (contender_result& result : outcome.results) result.failure = "killed after 0.2 s";
  EXPECT_EQ(verdict_text(outcome), "Verdict: none; the program failed under every allocator, as said below.");
  outcome.results[0] = result_of("system", 1, 10);
  EXPECT_EQ(verdict_text(outcome), "Verdict: nothing to compare; only system has figures.");
}

TEST(comparison_report, a_failure_is_named_with_its_allocator) {
  auto outcome =
      outcome_with({result_of("system", 1, 10), result_of("tarn", 1, 10), result_of("other", 1, 10)});
  outcome.results[2].failure = "exit status 3";
  outcome.results[2].error_tail = "first\nsecond";
  EXPECT_EQ(exit_code_of(outcome, false), exit_code::results_differ);
  EXPECT_NE(render_failures(outcome).find("fails under other: exit status 3\n    | first\n    | second"),
            std::string::npos);
  EXPECT_EQ(render_table(outcome, false).find("other"), std::string::npos);
}

TEST(comparison_report, a_failure_under_all_is_the_programs) {
  auto outcome = outcome_with({result_of("system", 1, 10), result_of("tarn", 1, 10)});
  outcome.usual_exit = 1 << 8;
  EXPECT_EQ(exit_code_of(outcome, false), exit_code::program_fails);
  EXPECT_EQ(exit_code_of(outcome, true), exit_code::success);
  EXPECT_NE(render_failures(outcome).find("under every allocator alike (exit status 1)"), std::string::npos);
}

TEST(comparison_report, json_carries_every_run) {
  const nlohmann::json object =
      as_json(outcome_with({result_of("system", 1, 10), result_of("tarn", 0.8, 10)}));
  EXPECT_EQ(object["contenders"][1]["metrics"]["wall_seconds"]["runs"].size(), 10U);
  EXPECT_TRUE(object["contenders"][0]["library"].is_null());
  EXPECT_EQ(object["verdicts"][0]["outcome"], "less");
  EXPECT_NEAR(object["verdicts"][0]["ratio"].get<double>(), 0.8, 1e-9);
}

TEST(comparison_report, default_rounds_fit_a_minute) {
  EXPECT_EQ(rounds_that_fit(0.01, 60), 10);
  EXPECT_EQ(rounds_that_fit(10, 60), 6);
  EXPECT_EQ(rounds_that_fit(300, 60), 3);
}

}  // namespace
}  // namespace tarn::cli
