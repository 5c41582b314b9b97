// SPDX-License-Identifier: MIT
#include "profiler/format/printable.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <utility>

namespace tarn::profiler {

namespace {

struct character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: the text does not begin with a character
};

// Decodes the first UTF-8 character; rejects overlong forms and surrogates.
character first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xffU >> (bytes + 1));
  for (std::size_t index = 1; index < bytes; ++index) {
    const auto unit = static_cast<unsigned char>(text[index]);
    if ((unit & 0xc0) != 0x80) return {};
    code = code << 6 | (unit & 0x3fU);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (too_long || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, bytes};
}

bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Whether the character changes the writing direction, or separates lines or paragraphs.
bool changes_layout(std::uint32_t code) {
  return (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x061c || code == 0xfeff;
}

void append_escape(std::string& text, const char* form, unsigned value) {
  std::array<char, 16> room;
  std::snprintf(room.data(), room.size(), form, value);
  text += room.data();
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const character next = first_of(text);
    if (next.bytes == 0) {
      append_escape(shown, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (next.code == '\n' || next.code == '\t') {
      shown += next.code == '\n' ? "\\n" : "\\t";
    } else if (is_control(next.code)) {
      append_escape(shown, "\\x%02x", next.code);
    } else if (changes_layout(next.code)) {
      append_escape(shown, "\\u{%04x}", next.code);
    } else {
      shown += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes == 0 ? 1 : next.bytes);
  }
  return shown;
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::string cut_at_character(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0U) == 0x80U) --bytes;
  text.resize(bytes);
  return text;
}

std::string escape_json(std::string text) {
  const auto is_plain = [](char unit) { return unit >= 0 && unit < 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 16);
  for (std::string_view rest = text; !rest.empty();) {
    const character next = first_of(rest);
    const std::size_t bytes = std::max<std::size_t>(1, next.bytes);
    // Below a blank there are only line ends here, between values.
    if ((is_control(next.code) && next.code >= ' ') || changes_layout(next.code)) {
      append_escape(escaped, "\\u%04x", next.code);
    } else {
      escaped += rest.substr(0, bytes);
    }
    rest.remove_prefix(bytes);
  }
  return escaped;
}

std::string escape_markup(std::string_view text) {
  constexpr std::pair<char, const char*> escapes[] = {
      {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
  std::string escaped;
  for (const char letter : printable(text)) {
    const auto* found = std::find_if(std::begin(escapes), std::end(escapes),
                                     [letter](const auto& one) { return one.first == letter; });
    escaped += found != std::end(escapes) ? found->second : std::string(1, letter);
  }
  return escaped;
}

}  // namespace tarn::profiler
