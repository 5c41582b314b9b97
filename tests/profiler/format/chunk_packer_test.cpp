// SPDX-License-Identifier: MIT
// Tables that cannot be packed, each with its reason; the chunks of the others.
#include "profiler/format/chunk_packer.hpp"

#include <gtest/gtest.h>

#include "../../refusal.hpp"
#include "profiler/format/chunk.hpp"

namespace tarn::profiler {
namespace {

table of_columns(std::vector<column> columns, std::size_t rows) {
  return {.name = "t", .rows = rows, .columns = std::move(columns)};
}

std::string packing_refusal(const table& contents) {
  return testing_support::refusal_of<profile_error>([&] { chunk_packer().pack(contents, true); });
}

// The headers of the packed chunks, one after the other.
std::vector<chunk_header> headers_of(const chunk_packer& packer) {
  std::vector<chunk_header> headers;
  for (std::size_t at = 0; at < packer.bytes().size();) {
    chunk_header header;
    EXPECT_TRUE(unpack_header(packer.bytes().data() + at, header));
    headers.push_back(header);
    at += chunk_header_bytes + header.name_bytes + header.stored;
  }
  return headers;
}

TEST(chunk_packer, a_table_that_cannot_be_packed_is_named) {
  EXPECT_EQ(packing_refusal(of_columns({{"c", integers{1, 2}}}, 3)),
            "table 't': column 'c' has 2 values for 3 rows");
  EXPECT_EQ(packing_refusal(of_columns({{std::string(256, 'n'), integers()}}, 0)),
            "table 't': a column's name is too long");
  EXPECT_EQ(packing_refusal(of_columns({{std::string(255, 'n'), integers()}}, 0)), "no error");
  EXPECT_EQ(packing_refusal(of_columns(std::vector<column>(most_columns + 1, {"c", integers()}), 0)),
            "table 't': too many columns");
  EXPECT_EQ(packing_refusal(of_columns(std::vector<column>(most_columns, {"c", integers()}), 0)), "no error");
  table long_name;
  long_name.name = std::string(256, 'n');
  EXPECT_EQ(packing_refusal(long_name), "table '" + long_name.name + "': its name is too long");
}

TEST(chunk_packer, a_row_is_no_larger_than_a_chunk) {
  texts rows = {"", std::string(most_chunk_bytes - text_bytes, 'x')};
  EXPECT_EQ(packing_refusal(of_columns({{"c", rows}}, 2)), "no error");
  rows[1] += 'x';
  EXPECT_EQ(packing_refusal(of_columns({{"c", rows}}, 2)), "table 't': row 1 is larger than a chunk");
}

TEST(chunk_packer, a_replacing_table_holds_what_a_reader_accepts) {
  EXPECT_NO_THROW(require_table_fits("t", std::size_t{256} << 20));
  EXPECT_EQ(testing_support::refusal_of<profile_error>(
                [] { require_table_fits("t", (std::size_t{256} << 20) + 1); }),
            "table 't' is larger than a profile may hold (256 MiB)");
}

TEST(chunk_packer, a_chunk_is_compressed_only_if_that_makes_it_shorter) {
  chunk_packer packer;
  packer.pack(of_columns({{"c", texts{"a"}}}, 1), true);
  packer.pack(of_columns({{"c", texts{std::string(1000, 'a')}}}, 1), true);
  const std::vector<chunk_header> headers = headers_of(packer);
  ASSERT_EQ(headers.size(), 2U);
  EXPECT_EQ(headers[0].flags, stored_flag);
  EXPECT_EQ(headers[0].stored, headers[0].unpacked);
  EXPECT_EQ(headers[1].flags, 0);
  EXPECT_LT(headers[1].stored, headers[1].unpacked);
}

TEST(chunk_packer, all_chunks_of_a_replacing_table_but_the_last_are_unfinished) {
  chunk_packer packer;
  table part = of_columns({{"c", integers(usual_chunk_bytes / number_bytes + 1)}},
                          usual_chunk_bytes / number_bytes + 1);
  packer.pack(part, true);
  part.replaces = true;
  packer.pack(part, false);
  packer.pack(of_columns({{"c", integers()}}, 0), true);
  std::vector<unsigned> flags;
  for (const chunk_header& each : headers_of(packer)) flags.push_back(each.flags & ~unsigned{stored_flag});
  constexpr unsigned goes_on = replaces_flag | unfinished_flag;
  EXPECT_EQ(flags, (std::vector<unsigned>{0, 0, goes_on, goes_on, 0}));
  packer.clear();
  EXPECT_TRUE(packer.bytes().empty());
}

}  // namespace
}  // namespace tarn::profiler
