// SPDX-License-Identifier: MIT
// Each text has one number; long texts are cut between letters.
#include "profiler/report/string_table.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(string_table, a_text_has_one_number_and_0_is_the_empty_one) {
  string_table strings;
  EXPECT_EQ(strings.number_of(""), 0U);
  EXPECT_EQ(strings.number_of("a"), 1U);
  EXPECT_EQ(strings.number_of("b"), 2U);
  EXPECT_EQ(strings.number_of(std::string("a")), 1U);
  for (int count = 0; count < 1000; ++count) strings.number_of(std::to_string(count));
  EXPECT_EQ(strings.number_of("b"), 2U) << "its keys stay valid while it grows";
  EXPECT_EQ(strings.texts().size(), 1003U);
}

TEST(string_table, a_long_text_is_cut_and_marked) {
  string_table strings;
  const std::string most(string_table::most_bytes, 'x');
  EXPECT_EQ(strings.texts().at(strings.number_of(most)), most);
  const std::uint32_t cut = strings.number_of(most + "y");
  EXPECT_EQ(strings.texts().at(cut), most + " …");
  EXPECT_EQ(strings.number_of(most + "z"), cut);
}

TEST(string_table, a_letter_of_several_bytes_is_not_cut) {
  string_table strings;
  const std::string before(string_table::most_bytes - 1, 'x');
  EXPECT_EQ(strings.texts().at(strings.number_of(before + "€")), before + " …");
  EXPECT_EQ(strings.texts().at(strings.number_of(std::string(string_table::most_bytes + 5, '\x80'))), " …");
}

}  // namespace
}  // namespace tarn::profiler
