// SPDX-License-Identifier: MIT
#include "cli/launch/accepted_values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"

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

namespace {

// From this bound on, a limit protects from nonsense only and is not named.
constexpr double unnamed_bound = 1e9;

std::string refusal(const std::string& what, const std::string& value) {
  return fmt::format("must be {}, not '{}'", what, value);
}

template <class T>
bool read_number(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

std::string range_text(const std::string& least, const std::string& most, bool is_bounded) {
  return is_bounded ? fmt::format("from {} to {}", least, most) : fmt::format("of at least {}", least);
}

// The name is empty: CLI11 would show it as the type of the value.
CLI::Validator checked_by(std::function<std::string(std::string&)> check) {
  return CLI::Validator(std::move(check), "", "");
}

}  // namespace

accepted_values whole_number(std::uint64_t least, std::uint64_t most) {
  const std::string what = "a whole number " + range_text(std::to_string(least), std::to_string(most),
                                                          static_cast<double>(most) < unnamed_bound);
  return {checked_by([least, most, what](std::string& text) {
    std::uint64_t value = 0;
    return read_number(text, value) && value >= least && value <= most ? "" : refusal(what, text);
  })};
}

accepted_values number(double least, double most) {
  const std::string what =
      "a number " + range_text(fmt::format("{}", least), fmt::format("{}", most), most < unnamed_bound);
  return {checked_by([least, most, what](std::string& text) {
    double value = 0;
    const bool is_fine = read_number(text, value) && std::isfinite(value) && value >= least && value <= most;
    return is_fine ? "" : refusal(what, text);
  })};
}

accepted_values number_above_zero() {
  return {checked_by([](std::string& text) {
    double value = 0;
    const bool is_fine = read_number(text, value) && std::isfinite(value) && value > 0;
    return is_fine ? "" : refusal("a number above 0", text);
  })};
}

accepted_values byte_size(std::uint64_t least, std::uint64_t most) {
  return {checked_by([least, most](std::string& text) -> std::string {
    try {
      const std::uint64_t bytes = parse_byte_size(text);
      if (bytes >= least && bytes <= most) return "";
    } catch (const cli_error&) {  // not a size
    }
    return refusal(
        fmt::format("a size from {} to {}", profiler::say_exactly(least), profiler::say_exactly(most)), text);
  })};
}

accepted_values one_of(std::vector<std::string> words) {
  auto check = checked_by([words](std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    const std::vector<std::string> but_last(words.begin(), words.end() - 1);
    const std::string near = nearest_word(text, words);
    return refusal(join(but_last, ", ") + (but_last.empty() ? "" : " or ") + words.back(), text) +
           (near.empty() ? "" : fmt::format("\nDid you mean '{}'?", near));
  });
  return {std::move(check), std::move(words)};
}

}  // namespace tarn::cli
