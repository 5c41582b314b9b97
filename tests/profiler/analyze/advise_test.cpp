// SPDX-License-Identifier: MIT
// arrange_advice: the order of made-up advice, what is left out, and which advice concerns the cost that other advice concerns.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

advice costs(advice_kind kind, double share, std::vector<std::uint32_t> sites = {}) {
  advice one;
  one.kind = kind;
  one.grade = share > 0 ? advice_grade::counted : advice_grade::open;
  one.reach = sites.empty() ? advice_reach::setting : advice_reach::own_code;
  one.sites = std::move(sites);
  one.share = share;
  one.counted_ns = share * 1e9;  // of the second that the program takes
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

TEST_F(arranged_advice, a_setting_comes_before_an_edit_that_concerns_four_times_its_cost) {
  EXPECT_EQ(kinds(arrange({costs(typed_pool, 0.3, {0}), costs(tunable, 0.10)})),
            (std::vector{tunable, typed_pool, leave_it}));
  EXPECT_EQ(kinds(arrange({costs(tunable, 0.05), costs(buffer_pool, 0.5, {0})})),
            (std::vector{buffer_pool, tunable, leave_it}));
  EXPECT_EQ(kinds(arrange({costs(allocator, 0.11), costs(tunable, 0.10)})),
            (std::vector{tunable, allocator, leave_it}));
}

TEST_F(arranged_advice, what_was_measured_comes_first_and_code_of_packages_last) {
  advice measured = costs(huge_pages, 0.03);
  measured.grade = advice_grade::measured;
  advice of_package = costs(arena, 0.9, {1});
  of_package.reach = advice_reach::package;
  EXPECT_EQ(kinds(arrange({of_package, costs(allocator, 0.6), costs(placement, 0), measured})),
            (std::vector{huge_pages, allocator, placement, arena, leave_it}));
  EXPECT_EQ(kinds(arrange({of_package})), (std::vector{arena, leave_it}));
}

TEST_F(arranged_advice, an_alternative_names_advice_that_is_no_alternative_itself) {
  // Calls at sites 0 and 1; at 1 and 2; at 2 alone, for which the second stands no more.
  const std::vector<advice> all = arrange({costs(typed_pool, 0.3, {0, 1}), costs(object_pool, 0.2, {1, 2}),
                                           costs(arena, 0.1, {2}), costs(buffer_pool, 0.05, {0})});
  ASSERT_EQ(kinds(all), (std::vector{typed_pool, object_pool, arena, buffer_pool, leave_it}));
  EXPECT_EQ(all[0].instead_of, -1);
  EXPECT_EQ(all[1].instead_of, 0);
  EXPECT_EQ(all[2].instead_of, -1);
  EXPECT_EQ(all[3].instead_of, -1) << "it concerns faults, not calls";
}

TEST_F(arranged_advice, advice_for_the_whole_program_covers_every_site) {
  const std::vector<advice> all = arrange({costs(allocator, 0.3), costs(typed_pool, 0.2, {2})});
  ASSERT_EQ(kinds(all), (std::vector{allocator, typed_pool, leave_it}));
  EXPECT_EQ(all[1].instead_of, 0);
}

TEST_F(arranged_advice, the_number_of_pieces_is_bounded) {
  std::vector<advice> many;
  for (int i = 0; i < 5; ++i) {
    many.push_back(costs(typed_pool, 0.1, {0}));
    many.push_back(costs(ask_for_less, 0, {1}));
  }
  EXPECT_EQ(kinds(arrange(many, {0.01, 2, {}})),
            (std::vector{typed_pool, typed_pool, ask_for_less, ask_for_less, ask_for_less, leave_it}));
}

TEST_F(arranged_advice, what_was_measured_to_save_nothing_is_no_advice) {
  advice refuted = costs(allocator, 0.5);
  refuted.grade = advice_grade::refuted;
  const std::vector<advice> with = arrange({refuted, costs(placement, 0), costs(arena, 0.1, {0})});
  EXPECT_EQ(kinds(with), (std::vector{arena, placement, allocator, leave_it}));
  EXPECT_EQ(with[0].instead_of, -1);
  EXPECT_EQ(with[2].instead_of, -1);
  EXPECT_EQ(say_figures(with[2]), "no gain; measured");
  EXPECT_EQ(kinds(arrange({refuted})), (std::vector{leave_it, allocator}));
}

TEST_F(arranged_advice, what_costs_little_is_left_alone_but_what_was_measured_is_told) {
  EXPECT_EQ(kinds(arrange({costs(arena, 0.001, {0}), costs(typed_pool, 0.019, {1})})), std::vector{leave_it});
  advice measured = costs(tunable, 0.012);
  measured.grade = advice_grade::measured;
  EXPECT_EQ(kinds(arrange({measured})), (std::vector{tunable, leave_it}));
  EXPECT_EQ(kinds(arrange({})), std::vector{leave_it});
}

TEST_F(arranged_advice, of_json_the_names_are_words) {
  advice one = costs(object_pool, 0.25, {2, 0});
  one.grade = advice_grade::refuted;
  one.variables = {{"A", "1"}, {"B", ""}};
  const nlohmann::json json = as_json(one);
  EXPECT_EQ(json["kind"], "object pool");
  EXPECT_EQ(json["grade"], "refuted");
  EXPECT_EQ(json["reach"], "your code");
  EXPECT_EQ(json["counted_ns"], 0.25e9);
  EXPECT_EQ(json["sites"], (std::vector{2, 0}));
  EXPECT_EQ(json["variables"], (nlohmann::json{{"A", "1"}, {"B", ""}}));
  EXPECT_EQ(json["instead_of"], -1);
}

}  // namespace
}  // namespace tarn::profiler
