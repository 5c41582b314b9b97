// SPDX-License-Identifier: MIT
// Figures that a measuring process reports, and their values over all rounds.
#include "cli/compare/statistics.hpp"

#include <gtest/gtest.h>

#include <array>

#include "../../refusal.hpp"

namespace tarn::cli {
namespace {

struct two_figures {
  double time = 0;
  double memory = 0;
};
constexpr std::array<named_figure<two_figures>, 2> two_names = {
    {{"time", &two_figures::time}, {"memory", &two_figures::memory}}};

TEST(figures, come_back_from_their_text) {
  const two_figures read =
      figures_from<two_figures>(figures_as_json(two_figures{1.5, 1e18}, two_names).dump(), two_names);
  EXPECT_EQ(read.time, 1.5);
  EXPECT_EQ(read.memory, 1e18);
}

TEST(figures, a_damaged_answer_is_refused) {
  for (const char* text :
       {"", "{", "[1,2]", "7", "{\"time\":1}", R"({"time":1,"memory":"2"})", R"({"time":1,"memory":null})"}) {
    EXPECT_TRUE(testing_support::refusal_of<cli_error>([&] {
                  figures_from<two_figures>(text, two_names);
                }).starts_with("125 the measuring process gave a damaged answer |"))
        << text;
  }
}

TEST(figures, over_all_rounds) {
  const std::vector<two_figures> rounds = {{3, 30}, {1, 10}, {2, 20}};
  EXPECT_EQ(values_of(rounds, &two_figures::memory), (std::vector<double>{30, 10, 20}));
  EXPECT_EQ(summary_of({3, 1, 2}).dump(),
            R"({"highest":3.0,"lowest":1.0,"median":2.0,"runs":[3.0,1.0,2.0]})");
}

}  // namespace
}  // namespace tarn::cli
