// SPDX-License-Identifier: MIT
#include "profiler/format/column_coding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/varint.hpp"
#include "profiler/format/chunk.hpp"

namespace tarn::profiler {

namespace {

// 2^53: above it, reals cannot represent all whole numbers
constexpr double most_whole_real = 9007199254740992.0;

std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (std::uint64_t{0} - (difference >> 63));
}

std::uint64_t unzigzag(std::uint64_t value) { return (value >> 1) ^ (std::uint64_t{0} - (value & 1)); }

// Most columns hold small numbers: decodes eight single-byte values at a time if possible.
const std::uint8_t* get_varints(const std::uint8_t* at, const std::uint8_t* end,
                                std::span<std::uint64_t> values) {
  std::size_t index = 0;
  while (index < values.size()) {
    while (index + 8 <= values.size() && end - at >= 8) {
      std::uint64_t eight;
      std::memcpy(&eight, at, 8);
      if ((eight & 0x8080808080808080U) != 0) break;
      for (std::size_t each = 0; each < 8; ++each) values[index + each] = at[each];
      index += 8;
      at += 8;
    }
    const std::size_t stop = std::min(index + 8, values.size());
    for (; index < stop; ++index) {
      at = get_varint(at, end, values[index]);
      if (at == nullptr) return nullptr;
    }
  }
  return at;
}

// Calls visit(number) with the coded form of each value under `way`.
template <class Visit>
void code_values(std::span<const std::uint64_t> values, coding way, Visit visit) {
  std::uint64_t before = 0;
  for (const std::uint64_t value : values) {
    visit(way == coding::plain ? value : zigzag(value - before));
    before = value;
  }
}

// Differences if they are clearly shorter; otherwise plain, as equal numbers compress better unchanged.
coding choose_coding(std::span<const std::uint64_t> values) {
  std::size_t plain = 0;
  std::size_t differences = 0;
  code_values(values, coding::plain, [&](std::uint64_t number) { plain += varint_bytes(number); });
  code_values(values, coding::difference, [&](std::uint64_t number) { differences += varint_bytes(number); });
  return differences < plain - plain / 4 ? coding::difference : coding::plain;
}

void encode_numbers(std::span<const std::uint64_t> values, coding way, byte_vector& out) {
  const std::size_t start = out.size();
  out.resize(start + values.size() * most_varint_bytes);
  std::uint8_t* at = out.data() + start;
  code_values(values, way, [&at](std::uint64_t number) { at = put_varint(at, number); });
  out.resize(static_cast<std::size_t>(at - out.data()));
}

bool all_whole(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) {
    return value >= 0 && value < most_whole_real && value == std::floor(value) && !std::signbit(value);
  });
}

void encode_reals(std::span<const double> values, byte_vector& out) {
  const std::size_t start = out.size();
  out.resize(start + values.size() * number_bytes);
  for (std::size_t row = 0; row < values.size(); ++row)
    put_number(out.data() + start + row * number_bytes, std::bit_cast<std::uint64_t>(values[row]));
}

void encode_texts(std::span<const std::string> values, byte_vector& out) {
  for (const std::string& value : values) append_varint(out, value.size());
  for (const std::string& value : values) out.insert(out.end(), value.begin(), value.end());
}

struct encoded {
  column_kind kind;
  std::uint8_t way;
};

encoded encode_values(const column& source, std::size_t first, std::size_t count, byte_vector& out) {
  if (const auto* whole = std::get_if<integers>(&source.values)) {
    const auto values = std::span(*whole).subspan(first, count);
    const coding way = choose_coding(values);
    encode_numbers(values, way, out);
    return {column_kind::whole, static_cast<std::uint8_t>(way)};
  }
  if (const auto* all_reals = std::get_if<reals>(&source.values)) {
    const auto values = std::span(*all_reals).subspan(first, count);
    if (!all_whole(values)) {
      encode_reals(values, out);
      return {column_kind::real, 0};
    }
    integers numbers(values.size());
    std::transform(values.begin(), values.end(), numbers.begin(),
                   [](double value) { return static_cast<std::uint64_t>(value); });
    const coding way = choose_coding(numbers);
    encode_numbers(numbers, way, out);
    return {column_kind::real, static_cast<std::uint8_t>(whole_reals + static_cast<std::uint8_t>(way))};
  }
  encode_texts(std::span(std::get<texts>(source.values)).subspan(first, count), out);
  return {column_kind::text, 0};
}

// Takes `rows` values from the budget; false: the budget does not suffice, or there are fewer bytes than values.
bool take_budget(std::size_t rows, std::size_t each, std::size_t encoded_bytes, std::size_t& budget) {
  if (rows > encoded_bytes || rows > budget / each) return false;
  budget -= rows * each;
  return true;
}

bool decode_numbers(std::span<const std::uint8_t> bytes, coding way, std::span<std::uint64_t> values) {
  const std::uint8_t* end = bytes.data() + bytes.size();
  if (get_varints(bytes.data(), end, values) != end) return false;
  if (way == coding::plain) return true;
  std::uint64_t before = 0;
  for (std::uint64_t& value : values) before = value = before + unzigzag(value);
  return true;
}

decode_result decode_whole(std::span<const std::uint8_t> bytes, std::uint8_t way, std::size_t rows,
                           std::size_t& budget, column& result) {
  if (way > static_cast<std::uint8_t>(coding::difference)) return decode_result::unknown;
  if (!take_budget(rows, number_bytes, bytes.size(), budget)) return decode_result::damaged;
  auto& values = result.values.emplace<integers>(rows);
  return decode_numbers(bytes, static_cast<coding>(way), values) ? decode_result::done
                                                                 : decode_result::damaged;
}

decode_result decode_reals(std::span<const std::uint8_t> bytes, std::uint8_t way, std::size_t rows,
                           std::size_t& budget, column& result) {
  const bool whole = way >= whole_reals;
  if (way > whole_reals + static_cast<std::uint8_t>(coding::difference) || (!whole && way != 0)) {
    return decode_result::unknown;
  }
  if (!take_budget(rows, number_bytes, bytes.size(), budget)) return decode_result::damaged;
  if (!whole && bytes.size() != rows * number_bytes) return decode_result::damaged;
  auto& values = result.values.emplace<reals>(rows);
  if (whole) {
    integers numbers(rows);
    if (!decode_numbers(bytes, static_cast<coding>(way - whole_reals), numbers))
      return decode_result::damaged;
    std::transform(numbers.begin(), numbers.end(), values.begin(),
                   [](std::uint64_t number) { return static_cast<double>(number); });
    return decode_result::done;
  }
  for (std::size_t row = 0; row < rows; ++row)
    values[row] = std::bit_cast<double>(get_number<std::uint64_t>(bytes.data() + row * number_bytes));
  return decode_result::done;
}

decode_result decode_texts(std::span<const std::uint8_t> bytes, std::uint8_t way, std::size_t rows,
                           std::size_t& budget, column& result) {
  if (way != 0) return decode_result::unknown;
  if (!take_budget(rows, text_bytes, bytes.size(), budget)) return decode_result::damaged;
  integers lengths(rows);
  const std::uint8_t* end = bytes.data() + bytes.size();
  const std::uint8_t* at = get_varints(bytes.data(), end, lengths);
  if (at == nullptr) return decode_result::damaged;
  auto left = static_cast<std::size_t>(end - at);
  if (left > budget) return decode_result::damaged;
  budget -= left;
  auto& values = result.values.emplace<texts>();
  values.reserve(rows);
  for (const std::uint64_t length : lengths) {
    if (length > left) return decode_result::damaged;
    values.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
    left -= length;
  }
  return left == 0 ? decode_result::done : decode_result::damaged;
}

}  // namespace

void append_varint(byte_vector& out, std::uint64_t value) {
  std::array<std::uint8_t, most_varint_bytes> bytes;
  const std::uint8_t* begin = bytes.data();
  const std::uint8_t* end = put_varint(bytes.data(), value);
  out.insert(out.end(), begin, end);
}

bool read_varint(std::span<const std::uint8_t>& bytes, std::uint64_t& value) {
  const std::uint8_t* at = get_varint(bytes.data(), bytes.data() + bytes.size(), value);
  if (at == nullptr) return false;
  bytes = bytes.subspan(static_cast<std::size_t>(at - bytes.data()));
  return true;
}

void encode_column(const column& source, std::size_t first, std::size_t count, byte_vector& out) {
  const std::size_t start = out.size();
  out.push_back(0);  // the kind and the coding, which are known at the end
  out.push_back(0);
  out.push_back(static_cast<std::uint8_t>(source.name.size()));
  out.insert(out.end(), source.name.begin(), source.name.end());
  const std::size_t length_at = out.size();
  out.resize(length_at + sizeof(std::uint32_t));
  const std::size_t values_at = out.size();
  const encoded how = encode_values(source, first, count, out);
  out[start] = static_cast<std::uint8_t>(how.kind);
  out[start + 1] = how.way;
  put_number(out.data() + length_at, static_cast<std::uint32_t>(out.size() - values_at));
}

decode_result decode_column(std::span<const std::uint8_t>& bytes, std::size_t rows, std::size_t& budget,
                            column& result) {
  if (bytes.size() < 3) return decode_result::damaged;
  const std::uint8_t kind = bytes[0];
  const std::uint8_t way = bytes[1];
  const std::size_t name_bytes = bytes[2];
  bytes = bytes.subspan(3);
  if (bytes.size() < name_bytes + sizeof(std::uint32_t)) return decode_result::damaged;
  result.name.assign(reinterpret_cast<const char*>(bytes.data()), name_bytes);
  const std::size_t length = get_number<std::uint32_t>(bytes.data() + name_bytes);
  bytes = bytes.subspan(name_bytes + sizeof(std::uint32_t));
  if (bytes.size() < length) return decode_result::damaged;
  const auto values = bytes.first(length);
  bytes = bytes.subspan(length);
  switch (static_cast<column_kind>(kind)) {
    case column_kind::whole: return decode_whole(values, way, rows, budget, result);
    case column_kind::real: return decode_reals(values, way, rows, budget, result);
    case column_kind::text: return decode_texts(values, way, rows, budget, result);
  }
  return decode_result::unknown;
}

}  // namespace tarn::profiler
