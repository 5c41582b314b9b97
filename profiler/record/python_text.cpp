// SPDX-License-Identifier: MIT
#include "profiler/record/python_text.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_characters = 4096;
constexpr std::size_t most_table_bytes = std::size_t{1} << 20;

// Returns the number of bytes; 0: there is no room.
std::size_t put_utf8(std::uint32_t letter, char* out, std::size_t room) {
  if (letter < 0x80 && room >= 1) {
    out[0] = static_cast<char>(letter);
    return 1;
  }
  if (letter < 0x800 && room >= 2) {
    out[0] = static_cast<char>(0xc0 | letter >> 6);
    out[1] = static_cast<char>(0x80 | (letter & 63));
    return 2;
  }
  if (letter >= 0x800 && letter < 0x10000 && room >= 3) {
    out[0] = static_cast<char>(0xe0 | letter >> 12);
    out[1] = static_cast<char>(0x80 | (letter >> 6 & 63));
    out[2] = static_cast<char>(0x80 | (letter & 63));
    return 3;
  }
  if (letter >= 0x10000 && letter < 0x110000 && room >= 4) {
    out[0] = static_cast<char>(0xf0 | letter >> 18);
    out[1] = static_cast<char>(0x80 | (letter >> 12 & 63));
    out[2] = static_cast<char>(0x80 | (letter >> 6 & 63));
    out[3] = static_cast<char>(0x80 | (letter & 63));
    return 4;
  }
  return 0;
}

// The line table of a code object (CPython's Objects/locations.md): in each entry the first byte has its highest
// bit set, the others have not.
class line_table {
 public:
  line_table(guarded_reader& from, std::uintptr_t at, std::size_t bytes)
      : from_(from), at_(at), end_(at + bytes) {}

  // The line of the instruction at `offset`, in code units; 0: it has none.
  std::uint32_t line_at(std::size_t offset, std::uint32_t first_line) {
    std::int64_t line = first_line;
    std::size_t begin = 0;
    while (at_ < end_ && !from_.failed()) {
      const std::uint8_t first = next();
      const unsigned kind = first >> 3 & 15;
      const std::size_t units = (first & 7U) + 1;
      if (kind == with_columns || kind == without_columns) {
        line += signed_number();
      } else if (kind >= first_of_lines && kind < without_columns) {
        line += kind - first_of_lines;
      }
      if (offset < begin + units) return kind == no_line || line < 0 ? 0 : static_cast<std::uint32_t>(line);
      begin += units;
      while (at_ < end_ && !from_.failed() && (from_.take<std::uint8_t>(at_) & 0x80) == 0) ++at_;
    }
    return 0;
  }

 private:
  static constexpr unsigned first_of_lines = 10;  // to 12: the line moves by 0, 1, 2
  static constexpr unsigned without_columns = 13;
  static constexpr unsigned with_columns = 14;
  static constexpr unsigned no_line = 15;

  std::uint8_t next() { return from_.take<std::uint8_t>(at_++); }
  std::int64_t signed_number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_ && shift < 36; shift += 6) {
      const std::uint8_t byte = next();
      value |= static_cast<std::uint64_t>(byte & 63) << shift;
      if ((byte & 64) == 0) break;
    }
    const auto size = static_cast<std::int64_t>(value >> 1);
    return (value & 1) != 0 ? -size : size;
  }

  guarded_reader& from_;
  std::uintptr_t at_;
  std::uintptr_t end_;
};

}  // namespace

std::size_t python_text(const python_layout& of, guarded_reader& from, std::uintptr_t object, char* out,
                        std::size_t room) {
  auto length = from.take<std::size_t>(object + of.text_length);
  const auto text_state = from.take<std::uint32_t>(object + of.text_state);
  const std::uint32_t letter_bytes = text_state >> 2 & 7;
  const bool is_compact = (text_state >> 5 & 1) != 0;
  const bool is_ascii = (text_state >> 6 & 1) != 0;
  if (from.failed() || !is_compact || letter_bytes > 4) return 0;
  if (length > most_characters) length = most_characters;
  std::uintptr_t at = object + (is_ascii ? of.ascii_begin : of.text_begin);
  std::size_t used = 0;
  for (std::size_t index = 0; index < length; ++index, at += letter_bytes) {
    std::uint32_t letter = 0;
    if (!from.read(at, &letter, letter_bytes)) break;
    const std::size_t put = put_utf8(letter, out + used, room - used);
    if (put == 0) break;
    used += put;
  }
  return used;
}

std::uint32_t python_line(const python_layout& of, guarded_reader& from, std::uintptr_t code,
                          std::uintptr_t instruction) {
  const auto first_line = from.take<std::uint32_t>(code + of.code_first_line);
  const auto table = from.take<std::uintptr_t>(code + of.code_lines);
  const auto bytes = from.take<std::size_t>(table + of.bytes_size);
  const std::uintptr_t begin = code + of.code_bytes;
  if (from.failed() || bytes > most_table_bytes || instruction < begin) return first_line;
  line_table lines(from, table + of.bytes_begin, bytes);
  const std::uint32_t line = lines.line_at((instruction - begin) / 2, first_line);
  return line != 0 ? line : first_line;
}

}  // namespace tarn::profiler
