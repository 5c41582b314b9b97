// SPDX-License-Identifier: MIT
// arrange_advice: the order of made-up advice, what is left out, and which advice saves the cost that other advice saves.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

advice saves(advice_kind kind, double share, std::vector<std::uint32_t> sites = {}) {
  advice one;
  one.kind = kind;
  one.sites = std::move(sites);
  one.share = share;
  one.saving_ns = share * 1e9;  // of the second that the program takes
  one.place = std::string("at ") + kind_name(kind);
  return one;
}

class arranged_advice : public testing::Test {
 protected:
  arranged_advice() {
    for (const char* name : {"first", "second", "third"}) program_.add({name, "main"}, 64, 1e6);
  }
  std::vector<advice> arrange(std::vector<advice> candidates, const advice_settings& settings = {}) {
    return arrange_advice(program_.p, std::move(candidates), settings);
  }

  small_program program_;
};

std::vector<advice_kind> kinds(const std::vector<advice>& all) {
  std::vector<advice_kind> found;
  for (const advice& one : all) found.push_back(one.kind);
  return found;
}

using enum advice_kind;

TEST_F(arranged_advice, what_changes_no_code_comes_before_what_saves_a_little_more) {
  EXPECT_EQ(kinds(arrange({saves(typed_pool, 0.11, {0}), saves(tunable, 0.10), saves(recycler, 0.2, {1})})),
            (std::vector{recycler, tunable, typed_pool, leave_it}));
  EXPECT_EQ(kinds(arrange({saves(tunable, 0.10), saves(buffer_pool, 0.14, {0})})),
            (std::vector{buffer_pool, tunable, leave_it}));
}

TEST_F(arranged_advice, an_alternative_names_advice_that_is_no_alternative_itself) {
  // Calls at sites 0 and 1; at 1 and 2; at 2 alone, for which the second stands no more.
  const std::vector<advice> all = arrange({saves(typed_pool, 0.3, {0, 1}), saves(object_pool, 0.2, {1, 2}),
                                           saves(arena, 0.1, {2}), saves(buffer_pool, 0.05, {0})});
  ASSERT_EQ(kinds(all), (std::vector{typed_pool, object_pool, arena, buffer_pool, leave_it}));
  EXPECT_EQ(all[0].instead_of, -1);
  EXPECT_EQ(all[1].instead_of, 0);
  EXPECT_EQ(all[2].instead_of, -1);
  EXPECT_EQ(all[3].instead_of, -1) << "it saves faults, not calls";
  EXPECT_NE(all[4].evidence[1].find("would save 45"), std::string::npos) << all[4].evidence[1];
}

TEST_F(arranged_advice, advice_for_the_whole_program_covers_every_site) {
  const std::vector<advice> all = arrange({saves(allocator, 0.3), saves(typed_pool, 0.2, {2})});
  ASSERT_EQ(kinds(all), (std::vector{allocator, typed_pool, leave_it}));
  EXPECT_EQ(all[1].instead_of, 0);
}

TEST_F(arranged_advice, more_than_all_time_is_not_promised) {
  const std::vector<advice> all = arrange({saves(typed_pool, 0.9, {0}), saves(object_pool, 0.8, {1})});
  EXPECT_NE(all.back().evidence[1].find("would save 100"), std::string::npos) << all.back().evidence[1];
}

TEST_F(arranged_advice, the_number_of_pieces_is_bounded) {
  std::vector<advice> many;
  for (int i = 0; i < 5; ++i) {
    many.push_back(saves(typed_pool, 0.1, {0}));
    many.push_back(saves(ask_for_less, 0, {1}));
  }
  EXPECT_EQ(kinds(arrange(many, {0.01, 2})),
            (std::vector{typed_pool, typed_pool, ask_for_less, ask_for_less, ask_for_less, leave_it}));
}

TEST_F(arranged_advice, disproved_advice_is_no_advice) {
  advice disproved = saves(allocator, 0.5);
  disproved.grade = advice_grade::disproved;
  const std::vector<advice> with = arrange({disproved, saves(placement, 0), saves(arena, 0.1, {0})});
  EXPECT_EQ(kinds(with), (std::vector{arena, placement, allocator, leave_it}));
  EXPECT_EQ(with[0].instead_of, -1);
  const std::vector<advice> alone = arrange({disproved});
  ASSERT_EQ(kinds(alone), (std::vector{leave_it, allocator}));
  EXPECT_EQ(alone[0].reason, "No rule finds a change that would save time.");
}

TEST_F(arranged_advice, the_best_that_is_not_worth_it_is_named) {
  const std::vector<advice> all =
      arrange({saves(arena, 0.001, {0}), saves(typed_pool, 0.004, {1}), saves(ask_for_less, 0, {2})});
  ASSERT_EQ(kinds(all), (std::vector{leave_it, ask_for_less}));
  EXPECT_NE(all[0].reason.find("typed pool at at typed pool"), std::string::npos) << all[0].reason;
}

TEST_F(arranged_advice, arranging_it_again_changes_nothing) {
  const std::vector<advice> once =
      arrange({saves(typed_pool, 0.3, {0}), saves(object_pool, 0.2, {0}), saves(ask_for_less, 0, {1})});
  const std::vector<advice> twice = arrange(once);
  ASSERT_EQ(kinds(twice), kinds(once));
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(as_json(twice[i]), as_json(once[i])) << i;
  EXPECT_EQ(kinds(arrange({})), std::vector{leave_it});
}

TEST_F(arranged_advice, of_json_the_names_are_words) {
  advice one = saves(object_pool, 0.25, {2, 0});
  one.grade = advice_grade::disproved;
  one.variables = {{"A", "1"}, {"B", ""}};
  const nlohmann::json json = as_json(one);
  EXPECT_EQ(json["kind"], "object pool");
  EXPECT_EQ(json["grade"], "disproved");
  EXPECT_EQ(json["sites"], (std::vector{2, 0}));
  EXPECT_EQ(json["variables"], (nlohmann::json{{"A", "1"}, {"B", ""}}));
  EXPECT_EQ(json["instead_of"], -1);
}

}  // namespace
}  // namespace tarn::profiler
