// SPDX-License-Identifier: MIT
#include "cli/show/byte_size.hpp"

#include <fmt/core.h>

#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

struct size_unit {
  std::string_view letter;
  std::string_view name;
  unsigned shift;
};

constexpr std::array<size_unit, 3> size_units = {{{"g", "gib", 30}, {"m", "mib", 20}, {"k", "kib", 10}}};

std::string lower(std::string_view word) {
  std::string text(word);
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

[[noreturn]] void refuse(std::string_view word, std::string_view problem) {
  throw cli_error(exit_code::usage, fmt::format("'{}': {}", word, problem),
                  "A size is a whole number of bytes, or of KiB, MiB or GiB: 8388608, 8192K, 8M, 8MiB, 1G.");
}

unsigned shift_of(std::string_view word, std::string_view suffix) {
  const std::string unit = lower(suffix);
  if (unit.empty() || unit == "b") return 0;
  for (const size_unit& candidate : size_units) {
    if (unit == candidate.letter || unit == candidate.name) return candidate.shift;
  }
  refuse(word, "not a size");
}

}  // namespace

std::uint64_t parse_byte_size(std::string_view word) {
  std::uint64_t number = 0;
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error == std::errc::result_out_of_range) refuse(word, "too large");
  if (error != std::errc()) refuse(word, "not a size");
  const unsigned shift = shift_of(word, std::string_view(rest, static_cast<std::size_t>(end - rest)));
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (number > (most >> shift)) refuse(word, "too large");
  return number << shift;
}

}  // namespace tarn::cli
