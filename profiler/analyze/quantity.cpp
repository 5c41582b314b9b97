// SPDX-License-Identifier: MIT
#include "profiler/analyze/quantity.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace tarn::profiler {

namespace {

// Three significant digits, without trailing zeros.
std::string digits(double value) {
  std::array<char, 40> text;
  const double size = std::abs(value);
  const int places = size >= 99.95 ? 0 : (size >= 9.995 ? 1 : 2);
  std::snprintf(text.data(), text.size(), "%.*f", places, value);
  std::string result = text.data();
  if (result.find('.') == std::string::npos) return result;
  while (result.back() == '0') result.pop_back();
  if (result.back() == '.') result.pop_back();
  return result;
}

struct unit {
  double size;
  const char* name;
};

template <std::size_t count>
std::string in_units(double value, const std::array<unit, count>& units) {
  for (const unit& each : units) {
    if (std::abs(value) >= each.size * 0.9995) return digits(value / each.size) + " " + each.name;
  }
  return digits(value / units.back().size) + " " + units.back().name;
}

}  // namespace

std::string say_time(double ns) {
  constexpr std::array<unit, 4> units = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};
  return in_units(ns, units);
}

std::string say_bytes(double bytes) {
  constexpr std::array<unit, 5> units = {
      {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "bytes"}}};
  return in_units(bytes, units);
}

std::string say_count(double count) {
  constexpr std::array<unit, 2> units = {{{1e9, "billion"}, {1e6, "million"}}};
  if (std::abs(count) >= 999500) return in_units(count, units);
  const std::string text = std::to_string(std::llround(count));
  std::string grouped;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t left = text.size() - at;
    if (at > (text[0] == '-' ? 1U : 0U) && left % 3 == 0) grouped += ',';
    grouped += text[at];
  }
  return grouped;
}

std::string say_share(double part) {
  std::array<char, 40> text;
  const double percent = 100 * part;
  const int places = std::abs(percent) >= 9.95 ? 0 : (std::abs(percent) >= 0.995 ? 1 : 2);
  std::snprintf(text.data(), text.size(), "%.*f %%", places, percent);
  return text.data();
}

}  // namespace tarn::profiler
