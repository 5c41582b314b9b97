// SPDX-License-Identifier: MIT
// column_coding: encodes and decodes the values of a column. Every value takes at least one byte before
// compression, so a few bytes cannot announce an unbounded column. No state; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

using byte_vector = std::vector<std::uint8_t>;

enum class column_kind : std::uint8_t { whole = 1, real = 2, text = 3 };

// Varints hold seven bits per byte, lowest bits first; the highest bit is set in all bytes but the last.
// Differences are modulo 2^64 and zigzag-coded: 0, -1, 1, -2 become 0, 1, 2, 3.
enum class coding : std::uint8_t {
  plain = 0,       // integers: varints; reals: 8 bytes each; texts: lengths, then bytes
  difference = 1,  // of integers, from the value before (at first 0), zigzag
};
// Reals that are all whole numbers from 0 to 2^53 use a coding of integers, with this added to its number.
inline constexpr std::uint8_t whole_reals = 16;

// Appends kind, name, coding, length and values of rows [first, first + count).
void encode_column(const column& source, std::size_t first, std::size_t count, byte_vector& out);

enum class decode_result : std::uint8_t { done, unknown, damaged };
// Reads one column of `rows` values from the front of `bytes`, and removes it there. `budget`: memory that the
// values may still take; reduced accordingly. Returns `unknown` for a kind or coding of a later version, which is
// skipped.
decode_result decode_column(std::span<const std::uint8_t>& bytes, std::size_t rows, std::size_t& budget,
                            column& result);

void append_varint(byte_vector& out, std::uint64_t value);
bool read_varint(std::span<const std::uint8_t>& bytes, std::uint64_t& value);

}  // namespace tarn::profiler
