// SPDX-License-Identifier: MIT
// chunk: the byte format of a profile's file, shared by writer and reader. All numbers are little-endian.
// docs/reference/format.md describes it, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

// Contains a byte above 127, both line ends and the end-of-file character, of which copying as text damages at
// least one.
inline constexpr std::array<std::uint8_t, 8> file_magic = {0x89, 'T', 'A', 'R', 'N', '\r', '\n', 0x1a};
inline constexpr std::size_t file_header_bytes = 16;      // magic, major, minor, four zero bytes
inline constexpr std::uint32_t chunk_magic = 0x4b484354;  // "TCHK"
inline constexpr std::size_t chunk_header_bytes = 28;
inline constexpr std::size_t most_columns = 4096;
inline constexpr std::size_t most_name_bytes = 255;
// A varint takes up to 10 bytes where its value takes 8.
inline constexpr std::size_t most_encoded_bytes = 2 * most_chunk_bytes;
// Limit for all chunks of a replacing table together, in memory.
inline constexpr std::size_t most_table_bytes = 4 * most_chunk_bytes;

enum chunk_flag : std::uint8_t {
  replaces_flag = 1,   // the table's earlier chunks no longer count
  stored_flag = 2,     // the payload is not compressed
  unfinished_flag = 4  // the table goes on in the next chunk, and counts only together with it
};

// Stored in this order after chunk_magic; then follow the name and the payload.
struct chunk_header {
  std::uint32_t check = 0;     // CRC-32 of the header's other fields and of the name
  std::uint32_t stored = 0;    // bytes of the payload in the file
  std::uint32_t unpacked = 0;  // bytes of the payload before compression
  std::uint32_t rows = 0;
  std::uint32_t payload_check = 0;  // CRC-32 of the payload as it is in the file
  std::uint8_t flags = 0;
  std::uint8_t name_bytes = 0;
};

template <class Number>
void put_number(std::uint8_t* at, Number value) {
  for (std::size_t index = 0; index < sizeof(Number); ++index) {
    at[index] = static_cast<std::uint8_t>(value >> (8 * index));
  }
}

template <class Number>
Number get_number(const std::uint8_t* at) {
  Number value = 0;
  for (std::size_t index = 0; index < sizeof(Number); ++index) {
    value = static_cast<Number>(value | static_cast<Number>(Number{at[index]} << (8 * index)));
  }
  return value;
}

// Memory of one value, without the bytes of a text; most_chunk_bytes counts these.
inline constexpr std::size_t number_bytes = sizeof(std::uint64_t);
inline constexpr std::size_t text_bytes = 32;

// Memory of all values of a table.
std::size_t memory_of(const table& contents);
// The same columns without rows.
table empty_like(const table& rows);
// Whether both have columns of the same names and kinds.
bool have_same_columns(const table& first, const table& second);
// Adds the rows of `more`; false: its columns differ.
bool add_rows(table& whole, table&& more);

// `header` and `name` as bytes, the check included.
std::array<std::uint8_t, chunk_header_bytes> pack_header(const chunk_header& header, std::string_view name);
// False: the magic does not match. `check` is the value in the file.
bool unpack_header(const std::uint8_t* bytes, chunk_header& header);
std::uint32_t check_of_header(const std::uint8_t* bytes, std::string_view name);

}  // namespace tarn::profiler
