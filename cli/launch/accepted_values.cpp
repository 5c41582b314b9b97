// SPDX-License-Identifier: MIT
#include "cli/launch/accepted_values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/show/byte_size.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

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

accepted_values completed_as(std::vector<std::string> words) { return {std::nullopt, std::move(words)}; }

}  // namespace tarn::cli
