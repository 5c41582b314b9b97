// SPDX-License-Identifier: MIT
// Alignment of columns, and which of them stay where a line has too little room.
#include "cli/show/text_table.hpp"

#include <gtest/gtest.h>

namespace tarn::cli {
namespace {

text_table some_table() {
  text_table table({"name", "\u00b1", "count"}, {0});
  table.add({"a", "100", "7"});
  table.add(std::vector<table_cell>{{"longer"}, {"2", style::good}, {"12"}});
  return table;
}

TEST(text_table, aligns_characters_and_ends_without_blanks) {
  EXPECT_EQ(some_table().text(false), "name      \u00b1  count\na       100      7\nlonger    2     12\n");
  EXPECT_EQ(some_table().row(1, false, "where"), "longer    2     12  where");
  EXPECT_EQ(some_table().width(), 8U + 5 + 7);
  text_table left({"a", "b"}, {0, 1});
  left.add(std::vector<std::string>{"xyz", ""});
  EXPECT_EQ(left.row(0, false), "xyz");
}

TEST(text_table, colours_cells) {
  EXPECT_EQ(some_table().row(1, true), "longer  \033[32m  2\033[0m     12");
  EXPECT_TRUE(some_table().heading(true, "where").ends_with("\033[1mwhere\033[0m"));
}

TEST(text_table, columns_stay_by_their_priority) {
  text_table table = some_table();
  EXPECT_EQ(table.fit(0), 0U);
  EXPECT_EQ(table.fit(30), 10U);
  EXPECT_EQ(table.fit(20), 1U);
  EXPECT_EQ(table.without_room(), "");
  table.fit(19, {1, 2, 0});
  EXPECT_EQ(table.without_room(), "no room for name");
  EXPECT_EQ(table.heading(false), "  \u00b1  count");
  table.fit(5, {1, 2, 0});
  EXPECT_EQ(table.without_room(), "no room for name, count");
  table.fit(1);
  EXPECT_EQ(table.heading(false), "name");
}

}  // namespace
}  // namespace tarn::cli
