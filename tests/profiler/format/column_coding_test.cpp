// SPDX-License-Identifier: MIT
// Columns survive encoding and decoding; malformed ones are rejected.
#include "profiler/format/column_coding.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "profiler/format/chunk.hpp"

namespace tarn::profiler {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

// Encodes the column and returns what is decoded; `way` is set to the coding that was chosen.
column round_trip(const column& source, std::size_t rows, int* way = nullptr) {
  byte_vector bytes;
  encode_column(source, 0, rows, bytes);
  if (way != nullptr) *way = bytes[1];
  std::span<const std::uint8_t> left = bytes;
  std::size_t budget = most_chunk_bytes;
  column result;
  EXPECT_EQ(decode_column(left, rows, budget, result), decode_result::done);
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(result.name, source.name);
  return result;
}

int way_of(const integers& values) {
  int way = -1;
  const column again = round_trip({"c", values}, values.size(), &way);
  EXPECT_EQ(std::get<integers>(again.values), values);
  return way;
}

TEST(column_coding, whole_numbers_come_back) {
  EXPECT_EQ(way_of({}), 0);
  EXPECT_EQ(way_of({0}), 0);
  way_of({most});
  way_of({most, 0, most, 1, most / 2, most / 2 + 1});
  integers powers;
  for (int shift = 0; shift < 64; ++shift) {
    powers.push_back(std::uint64_t{1} << shift);
    powers.push_back((std::uint64_t{1} << shift) - 1);
  }
  way_of(powers);
}

TEST(column_coding, the_shortest_coding_is_taken) {
  integers rising, near;
  for (std::uint64_t index = 0; index < 1000; ++index) {
    rising.push_back(5000000000 + 90 * index);
    near.push_back(5000000000 + (index * 7919) % 50);
  }
  EXPECT_EQ(way_of(rising), static_cast<int>(coding::difference));
  EXPECT_EQ(way_of(near), static_cast<int>(coding::difference));
  EXPECT_EQ(way_of({3, 1, 2, 7, 1, 3}), static_cast<int>(coding::plain));
}

TEST(column_coding, reals_come_back_bit_for_bit) {
  const reals values = {0,      -0.0, 1.5, -1e300, std::numeric_limits<double>::infinity(), std::nan("7"),
                        1e-310, 3};
  const column again = round_trip({"r", values}, values.size());
  const auto& got = std::get<reals>(again.values);
  ASSERT_EQ(got.size(), values.size());
  for (std::size_t row = 0; row < values.size(); ++row) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(got[row]), std::bit_cast<std::uint64_t>(values[row])) << row;
  }
}

TEST(column_coding, reals_that_are_whole_take_a_whole_columns_coding) {
  int way = 0;
  const reals values = {0, 1, 9007199254740991.0, 12};
  EXPECT_EQ(std::get<reals>(round_trip({"r", values}, 4, &way).values), values);
  EXPECT_GE(way, whole_reals);
  const reals beyond = {9007199254740992.0, 1};
  EXPECT_EQ(std::get<reals>(round_trip({"r", beyond}, 2, &way).values), beyond);
  EXPECT_EQ(way, 0);
}

TEST(column_coding, texts_come_back) {
  const texts values = {"", "a", std::string("z\0z", 3), std::string(100000, 'x'), "\xff\xfe"};
  EXPECT_EQ(std::get<texts>(round_trip({"t", values}, values.size()).values), values);
}

TEST(column_coding, rows_in_the_middle) {
  byte_vector bytes;
  encode_column({"c", integers{1, 2, 3, 4, 5}}, 1, 3, bytes);
  std::span<const std::uint8_t> left = bytes;
  std::size_t budget = 3 * number_bytes;
  column result;
  ASSERT_EQ(decode_column(left, 3, budget, result), decode_result::done);
  EXPECT_EQ(std::get<integers>(result.values), (integers{2, 3, 4}));
  EXPECT_EQ(budget, 0U);
}

TEST(column_coding, a_column_beyond_the_budget_is_damaged) {
  byte_vector bytes;
  encode_column({"c", integers(100)}, 0, 100, bytes);
  std::span<const std::uint8_t> left = bytes;
  std::size_t budget = 99 * number_bytes;
  column result;
  EXPECT_EQ(decode_column(left, 100, budget, result), decode_result::damaged);
  // More rows than bytes: damaged, whatever the budget.
  left = bytes;
  budget = most;
  EXPECT_EQ(decode_column(left, 1U << 31, budget, result), decode_result::damaged);
}

TEST(column_coding, unknown_kinds_and_codings_are_skipped) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    byte_vector bytes;
    encode_column({"new", integers{1, 2}}, 0, 2, bytes);
    bytes[at] = 200;
    const std::size_t first = bytes.size();
    encode_column({"known", integers{3, 4}}, 0, 2, bytes);
    std::span<const std::uint8_t> left = bytes;
    std::size_t budget = most_chunk_bytes;
    column result;
    EXPECT_EQ(decode_column(left, 2, budget, result), decode_result::unknown);
    EXPECT_EQ(left.size(), bytes.size() - first);
    EXPECT_EQ(decode_column(left, 2, budget, result), decode_result::done);
    EXPECT_EQ(result.name, "known");
  }
}

TEST(column_coding, varints_that_do_not_end_or_are_too_long) {
  const auto reads = [](const byte_vector& bytes) {
    std::span<const std::uint8_t> left = bytes;
    std::uint64_t value = 0;
    return read_varint(left, value);
  };
  EXPECT_FALSE(reads({}));
  EXPECT_FALSE(reads({0x80}));
  EXPECT_TRUE(reads({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}));
  EXPECT_FALSE(reads({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}));
  EXPECT_FALSE(reads({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}));
}

}  // namespace
}  // namespace tarn::profiler
