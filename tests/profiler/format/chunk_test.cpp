// SPDX-License-Identifier: MIT
// The bytes of a chunk's header, and tables that grow by the rows of others.
#include "profiler/format/chunk.hpp"

#include <gtest/gtest.h>

#include "../../refusal.hpp"

namespace tarn::profiler {
namespace {

TEST(chunk, numbers_are_little_endian) {
  std::uint8_t bytes[8] = {};
  put_number(bytes, std::uint64_t{0x0123456789abcdef});
  EXPECT_EQ(bytes[0], 0xef);
  EXPECT_EQ(bytes[7], 0x01);
  EXPECT_EQ(get_number<std::uint16_t>(bytes), 0xcdef);
  EXPECT_EQ(get_number<std::uint64_t>(bytes), 0x0123456789abcdefU);
}

TEST(chunk, a_header_comes_back_from_its_bytes) {
  chunk_header header;
  header.stored = 0x01020304;
  header.unpacked = 0xfffffffe;
  header.rows = 7;
  header.payload_check = 0x89abcdef;
  header.flags = replaces_flag | unfinished_flag;
  header.name_bytes = 5;
  auto bytes = pack_header(header, "sites");
  EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + 4), "TCHK");
  EXPECT_EQ(std::string(bytes.begin() + 26, bytes.end()), std::string(2, '\0'));
  chunk_header again;
  ASSERT_TRUE(unpack_header(bytes.data(), again));
  EXPECT_EQ(again.stored, header.stored);
  EXPECT_EQ(again.unpacked, header.unpacked);
  EXPECT_EQ(again.rows, header.rows);
  EXPECT_EQ(again.payload_check, header.payload_check);
  EXPECT_EQ(again.flags, header.flags);
  EXPECT_EQ(again.name_bytes, header.name_bytes);
  EXPECT_EQ(again.check, check_of_header(bytes.data(), "sites"));
  EXPECT_NE(again.check, check_of_header(bytes.data(), "sited"));
  bytes[0] = 't';
  EXPECT_FALSE(unpack_header(bytes.data(), again));
}

TEST(chunk, memory_counts_each_value_and_the_bytes_of_texts) {
  table one{"t", 2, {{"n", integers{1, 2}}, {"r", reals{1, 2}}, {"w", texts{"abc", ""}}}, false};
  EXPECT_EQ(memory_of(one), 2 * 8 + 2 * 8 + 2 * 32 + 3U);
  EXPECT_EQ(memory_of(table()), 0U);
}

TEST(chunk, rows_are_added_to_a_table_of_the_same_columns) {
  const table first{"t", 1, {{"n", integers{1}}, {"w", texts{"a"}}}, true};
  table whole = first;
  EXPECT_TRUE(add_rows(whole, {"t", 2, {{"n", integers{2, 3}}, {"w", texts{"b", "c"}}}, true}));
  EXPECT_EQ(whole.rows, 3U);
  EXPECT_EQ(whole.whole("n"), (integers{1, 2, 3}));
  EXPECT_EQ(whole.text("w"), (texts{"a", "b", "c"}));
  const auto refused = [&first](table&& more) {
    table into = first;
    const bool added = add_rows(into, std::move(more));
    EXPECT_EQ(into.rows, added ? 2U : 1U);
    return !added;
  };
  EXPECT_FALSE(refused({"t", 1, {{"n", integers{2}}, {"w", texts{"b"}}}, false}));
  EXPECT_TRUE(refused({"u", 1, {{"n", integers{2}}, {"w", texts{"b"}}}, true})) << "another table";
  EXPECT_TRUE(refused({"t", 1, {{"n", integers{2}}}, true})) << "a column is missing";
  EXPECT_TRUE(refused({"t", 1, {{"w", texts{"b"}}, {"n", integers{2}}}, true})) << "another order";
  EXPECT_TRUE(refused({"t", 1, {{"n", reals{2}}, {"w", texts{"b"}}}, true})) << "another kind";
}

TEST(chunk, an_empty_table_keeps_names_and_kinds) {
  const table one{"t", 1, {{"n", integers{1}}, {"r", reals{1}}, {"w", texts{"a"}}}, true};
  const table empty = empty_like(one);
  EXPECT_EQ(empty.name, "t");
  EXPECT_EQ(empty.rows, 0U);
  EXPECT_TRUE(empty.replaces);
  EXPECT_TRUE(have_same_columns(one, empty));
  EXPECT_TRUE(empty.text("w").empty());
}

TEST(chunk, values_are_moved_out_of_a_column_once) {
  table one{"t", 2, {{"r", reals{1, 2}}, {"n", integers{1, 2}}}, true};
  EXPECT_EQ(one.take_real("r"), (reals{1, 2}));
  EXPECT_TRUE(one.real("r").empty());
  EXPECT_EQ(
      testing_support::refusal_of<profile_error>([&] { one.take_real("n"); }),
      "the profile's table 't' has no column 'n' of reals; it may be of another version of tarn: make a new "
      "one with tarn profile");
}

}  // namespace
}  // namespace tarn::profiler
