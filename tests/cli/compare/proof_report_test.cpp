// SPDX-License-Identifier: MIT
// The table of `tarn prove`: which columns fit on a terminal, and how long names are shortened.
#include "cli/compare/proof_report.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/compare/proof_course.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {
namespace {

proof_result measured(std::size_t ways) {
  proof_result result;
  result.proven.rounds = 10;
  for (std::size_t index = 0; index < ways; ++index) {
    profiler::proof_way way;
    way.name = index == 0 ? "an-allocator-with-quite-a-long-name-1" : "way-" + std::to_string(index);
    way.headline = "what is done";
    for (profiler::proven_figure& figure : way.figures) figure = {1.5, 0.877, 0.86, 0.899, 0.99, {}};
    way.of(profiler::proof_metric::faults).ratio = 31.4;
    result.proven.ways.push_back(way);
  }
  return result;
}

// The heading and the three rows of the table.
std::vector<std::string> table_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    if (!lines.empty() || line.starts_with("change in %")) lines.push_back(line);
    if (lines.size() == 4) break;
  }
  return lines;
}

TEST(proof_report, the_table_fits_on_the_terminal_and_names_what_does_not) {
  for (const std::size_t width : {80U, 100U, 60U}) {
    const std::string text = render_proof(measured(3), false, width);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), width) << line;
    EXPECT_NE(text.find("CPU time"), std::string::npos);
    EXPECT_NE(text.find("no room for "), std::string::npos) << text;
    EXPECT_NE(text.find("page faults: "), std::string::npos) << text;
  }
  // A long name is shortened in its middle, so that both ends stay.
  const std::string text = render_proof(measured(3), false, 80);
  EXPECT_NE(text.find("an-"), std::string::npos);
  EXPECT_NE(text.find("…"), std::string::npos);
  EXPECT_NE(text.find("-1 "), std::string::npos);
}

TEST(proof_report, the_unchanged_program_is_that_of_the_most_rounds) {
  proof_result result = measured(2);
  result.proven.ways[0].rounds = 1;
  result.proven.ways[1].rounds = 9;
  result.proven.ways[1].of(profiler::proof_metric::cpu).before = 0.25;
  const std::string text = render_proof(result, false, 0);
  EXPECT_NE(text.find("unchanged: 250 ms CPU time"), std::string::npos) << text;
}

TEST(proof_report, a_bound_that_says_nothing_is_not_shown) {
  proof_result result = measured(2);
  result.proven.ways[1].of(profiler::proof_metric::cpu) = {1.5, 1.1, 0.01, 1e6, 0.99, {}};
  const std::string text = render_proof(result, false, 0);
  EXPECT_NE(text.find("+10.0 (? to ?)"), std::string::npos) << text;
}

TEST(proof_report, without_a_terminal_all_columns_are_shown) {
  for (const std::size_t width : {0U, 200U}) {
    const std::string text = render_proof(measured(3), false, width);
    const std::vector<std::string> table = table_of(text);
    ASSERT_EQ(table.size(), 4U);
    for (const char* name : {"CPU time", "wall time", "peak RSS", "page faults"})
      EXPECT_NE(table[0].find(name), std::string::npos);
    EXPECT_TRUE(table[1].starts_with("an-allocator-with-quite-a-long-name-1 "));
    EXPECT_EQ(text.find("no room"), std::string::npos);
  }
}

TEST(proof_report, a_setting_is_said_in_words_and_a_malloc_by_its_name) {
  proof_result result = measured(2);
  result.proven.ways[0].kind = profiler::kind_name(profiler::advice_kind::allocator);
  result.proven.ways[1].variables = {{"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
  const std::string text = render_proof(result, false, 0);
  EXPECT_EQ(text.find("name-1: what is"), std::string::npos) << text;
  EXPECT_NE(text.find("\nway-1: what is done (GLIBC_TUNABLES=glibc.malloc.hugetlb=1)\n"), std::string::npos)
      << text;
}

TEST(proof_report, a_load_that_may_last_a_fixed_time_is_doubted) {
  profiler::proof what = measured(2).proven;
  for (profiler::proof_way& way : what.ways) {
    way.of(profiler::proof_metric::wall).ratio = 1.02;
    way.of(profiler::proof_metric::cpu).ratio = 0.6;
  }
  EXPECT_EQ(doubt_about_load(what), "") << "a program that ends";
  what.load = "wrk -d 10";
  EXPECT_NE(doubt_about_load(what), "");
  what.ways[1].of(profiler::proof_metric::wall).ratio = 0.7;
  EXPECT_EQ(doubt_about_load(what), "") << "a faster server ends the load earlier";
}

TEST(proof_report, a_load_that_ends_at_once_without_work_is_doubted) {
  profiler::proof what = measured(1).proven;
  what.load = "wrk -c 10 &";
  what.ways[0].of(profiler::proof_metric::wall).before = 0.002;
  EXPECT_EQ(doubt_about_load(what), "") << "the server worked";
  what.ways[0].of(profiler::proof_metric::cpu).before = 0.0003;
  EXPECT_NE(doubt_about_load(what).find("the load ended after 2 ms"), std::string::npos)
      << doubt_about_load(what);
}

TEST(proof_report, figures_of_fewer_rounds_say_so) {
  profiler::proof what = measured(2).proven;
  for (profiler::proof_way& way : what.ways) {
    way.of(profiler::proof_metric::cpu) = {1.5, 1.009, 1.009, 1.009, 0, {}};
    way.decision = profiler::proof_decision::behind;
    way.rounds = what.rounds;
  }
  what.ways[1].rounds = 1;
  EXPECT_EQ(render_proof_verdict(what).back(),
            "Not measured further, as others took less in the rounds before: "
            "an-allocator-with-quite-a-long-name-1 +0.9 %, way-1 +0.9 % (1 round)");
}

}  // namespace
}  // namespace tarn::cli
