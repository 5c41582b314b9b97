// SPDX-License-Identifier: MIT
// A table that grows part by part is written like one that is complete from the start.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "profiler/format/chunk.hpp"
#include "profiler/format/table_file.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

table numbered_rows(std::uint64_t first, std::size_t count) {
  integers numbers(count);
  for (std::size_t row = 0; row < count; ++row) numbers[row] = first + row;
  table rows;
  rows.name = "t";
  rows.rows = count;
  rows.replaces = true;
  rows.columns = {{"number", std::move(numbers)}, {"half", reals(count, 0.5)}};
  return rows;
}

TEST(growing_table, its_parts_are_read_as_one_table_also_after_a_release_at_the_end) {
  constexpr std::size_t part = 100000, parts = 20;
  for (const std::size_t released : {std::size_t{7}, parts - 1}) {
    const scratch_file file;
    {
      growing_table growing;
      for (std::size_t index = 0; index < parts; ++index) {
        growing.add(numbered_rows(index * part, part));
        if (index == released) growing.release();
      }
      table_writer(file.path()).append(growing);
    }
    std::vector<table> tables;
    const read_outcome outcome =
        read_tables(file.path(), [&](table&& one) { tables.push_back(std::move(one)); });
    EXPECT_EQ(outcome.damage, "");
    EXPECT_GT(outcome.chunks, 1U);
    ASSERT_EQ(tables.size(), 1U);
    EXPECT_TRUE(tables[0].whole("number") == numbered_rows(0, part * parts).whole("number"));
  }
}

TEST(growing_table, small_ones_are_the_same_bytes_as_a_table_that_is_known_at_once) {
  const scratch_file in_parts, at_once;
  {
    growing_table growing;
    growing.add(numbered_rows(0, 10));
    growing.release();
    growing.add(numbered_rows(10, 20));
    table_writer(in_parts.path()).append(growing);
    table_writer(at_once.path()).append(numbered_rows(0, 30));
  }
  EXPECT_TRUE(in_parts.contents() == at_once.contents());
}

TEST(growing_table, more_than_a_reader_accepts_is_refused) {
  growing_table growing;
  constexpr std::size_t part = std::size_t{1} << 20;
  for (std::size_t taken = 0; taken < most_table_bytes; taken += part * 16)
    growing.add(numbered_rows(0, part));
  EXPECT_THROW(growing.add(numbered_rows(0, 1)), profile_error);
}

}  // namespace
}  // namespace tarn::profiler
