// SPDX-License-Identifier: MIT
// What the reader says about chunks that are malformed, although their checksums are right, and about files that it
// does not read at all.
#include <gtest/gtest.h>
#include <zlib.h>

#include "profiler/format/chunk.hpp"
#include "profiler/format/column_coding.hpp"
#include "profiler/format/table_file.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

byte_vector encoded(const std::vector<column>& columns, std::size_t rows) {
  byte_vector payload;
  append_varint(payload, columns.size());
  for (const column& each : columns) encode_column(each, 0, rows, payload);
  return payload;
}

// A file under construction, of chunks that are not compressed.
class chunk_file {
 public:
  chunk_file() { table_writer header(file_.path()); }

  chunk_file& add(const std::string& name, const byte_vector& payload, std::uint32_t rows,
                  unsigned flags = 0) {
    chunk_header header{.rows = rows, .flags = static_cast<std::uint8_t>(flags | stored_flag)};
    header.stored = header.unpacked = static_cast<std::uint32_t>(payload.size());
    return add(name, payload, header);
  }

  chunk_file& add(const std::string& name, const byte_vector& payload, chunk_header header) {
    header.name_bytes = static_cast<std::uint8_t>(name.size());
    header.payload_check =
        static_cast<std::uint32_t>(crc32(0, payload.data(), static_cast<uInt>(payload.size())));
    byte_vector bytes = file_.contents();
    const auto packed = pack_header(header, name);
    bytes.insert(bytes.end(), packed.begin(), packed.end());
    bytes.insert(bytes.end(), name.begin(), name.end());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    file_.set(bytes);
    return *this;
  }

  // A chunk of a replacing table of one column of zeros.
  chunk_file& add_part(const std::string& name, const std::string& column_name, unsigned flags) {
    return add(name, encoded({{column_name, integers(2)}}, 2), 2, flags | replaces_flag);
  }

  // Changes the byte at this distance from the end.
  chunk_file& damage(std::size_t from_end) {
    byte_vector bytes = file_.contents();
    bytes[bytes.size() - from_end] ^= 1;
    file_.set(bytes);
    return *this;
  }

  std::string damage_of(const parts_taker& parts = {}) const {
    return read_tables(
               file_.path(), [](table&&) {}, {}, parts)
        .damage;
  }
  std::size_t tables() const {
    std::size_t count = 0;
    read_tables(file_.path(), [&count](table&&) { ++count; });
    return count;
  }

 private:
  scratch_file file_;
};

chunk_header of_sizes(std::uint32_t stored, std::uint32_t unpacked, std::uint8_t flags = stored_flag) {
  return {.stored = stored, .unpacked = unpacked, .flags = flags};
}

const byte_vector no_columns = {0};

TEST(table_reader, a_chunk_is_described_by_what_is_wrong_with_it) {
  EXPECT_EQ(chunk_file().add("t", no_columns, 0).damage_of(), "");
  // From the end: a byte of payload, one of name, 28 of header.
  EXPECT_EQ(chunk_file().add("t", no_columns, 0).damage(1).damage_of(), "a chunk of table 't' is damaged");
  EXPECT_EQ(chunk_file().add("t", no_columns, 0).damage(2).damage_of(), "a chunk's header is damaged");
  EXPECT_EQ(chunk_file().add("t", no_columns, 0).damage(30).damage_of(), "no chunk begins where one should");
  EXPECT_EQ(chunk_file().add("t", no_columns, of_sizes(2, 2)).damage_of(), "the file ends too early");
  EXPECT_EQ(chunk_file().add("t", no_columns, of_sizes(2, 1)).damage_of(),
            "a chunk announces more than one may hold");
  EXPECT_EQ(chunk_file().add("t", no_columns, of_sizes(1, 2 * most_chunk_bytes + 1)).damage_of(),
            "a chunk announces more than one may hold");
}

TEST(table_reader, a_payload_that_cannot_be_decoded_is_malformed) {
  const std::string malformed = "a chunk of table 't' is malformed";
  EXPECT_EQ(chunk_file().add("t", {}, 0).damage_of(), malformed) << "no number of columns";
  EXPECT_EQ(chunk_file().add("t", {1}, 0).damage_of(), malformed) << "no column";
  EXPECT_EQ(chunk_file().add("t", {0, 0}, 0).damage_of(), malformed) << "a byte after the columns";
  byte_vector columns;
  append_varint(columns, most_columns + 1);
  EXPECT_EQ(chunk_file().add("t", columns, 0).damage_of(), malformed);
  const byte_vector two_rows = encoded({{"c", integers{1, 2}}}, 2);
  EXPECT_EQ(chunk_file().add("t", two_rows, 2).damage_of(), "");
  EXPECT_EQ(chunk_file().add("t", two_rows, 1).damage_of(), malformed);
  EXPECT_EQ(chunk_file().add("t", two_rows, 3).damage_of(), malformed);
  EXPECT_EQ(chunk_file().add("t", no_columns, of_sizes(1, 1, 0)).damage_of(), malformed) << "not compressed";
}

TEST(table_reader, what_comes_before_the_damage_is_read) {
  chunk_file file;
  file.add("t", no_columns, 0).add("t", no_columns, 0).add("t", no_columns, 0).damage(1);
  EXPECT_EQ(file.tables(), 2U);
}

TEST(table_reader, the_chunks_of_a_replacing_table_belong_together) {
  EXPECT_EQ(chunk_file().add_part("t", "c", unfinished_flag).damage_of(), "the file ends within a table");
  EXPECT_EQ(chunk_file().add_part("t", "c", unfinished_flag).add_part("u", "c", 0).damage_of(),
            "a table's end is missing");
  chunk_file other_columns;
  other_columns.add_part("t", "c", unfinished_flag).add_part("t", "d", 0);
  EXPECT_EQ(other_columns.damage_of(), "a table's chunks do not fit together");
  EXPECT_EQ(other_columns.tables(), 0U);
}

TEST(table_reader, parts_of_a_table_belong_together_too) {
  std::vector<bool> ends;
  const parts_taker parts{"t", [&ends](table_part&& part) { ends.push_back(part.ends); }};
  chunk_file other_columns;
  other_columns.add_part("t", "c", unfinished_flag).add_part("t", "d", 0);
  EXPECT_EQ(other_columns.damage_of(parts), "a table's chunks do not fit together");
  EXPECT_EQ(ends, std::vector<bool>{false});
  EXPECT_EQ(chunk_file().add_part("t", "c", unfinished_flag).add_part("u", "c", 0).damage_of(parts),
            "a table's end is missing");
  EXPECT_EQ(chunk_file().add_part("t", "c", unfinished_flag).damage_of(parts),
            "the file ends within a table");
}

}  // namespace
}  // namespace tarn::profiler
