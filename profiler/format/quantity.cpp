// SPDX-License-Identifier: MIT
#include "profiler/format/quantity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

namespace tarn::profiler {

namespace {

struct step {
  double size;
  const char* name;
  double from;  // the smallest quantity in this unit; the first unit is for all that are smaller
};
constexpr std::array<step, 4> times = {
    {{1, " ns", 0}, {1e3, " us", 1e3}, {1e6, " ms", 1e6}, {1e9, " s", 1e9}}};
constexpr std::array<step, 5> sizes = {{{1, " B", 0},
                                        {0x1p10, " KiB", 0x1p10},
                                        {0x1p20, " MiB", 0x1p20},
                                        {0x1p30, " GiB", 0x1p30},
                                        {0x1p40, " TiB", 0x1p40}}};
constexpr std::array<step, 5> counts = {
    {{1, "", 0}, {1e3, "k", 1e5}, {1e6, "M", 1e6}, {1e9, "G", 1e9}, {1e12, "T", 1e12}}};

std::span<const step> steps_of(base_unit what) {
  if (what == base_unit::ns) return times;
  return what == base_unit::bytes ? std::span<const step>(sizes) : counts;
}

std::string with_commas(double value, int places) {
  std::array<char, 400> text;
  const int size = std::snprintf(text.data(), text.size(), "%.*f", places, value);
  std::string result(text.data(), static_cast<std::size_t>(size));
  for (std::size_t at = std::min(result.find('.'), result.size()); at > 3; at -= 3)
    result.insert(at - 3, 1, ',');
  return result;
}

// The unit in which `size` is shown with this many significant digits.
const step& step_for(base_unit what, double size, int digits) {
  const std::span<const step> steps = steps_of(what);
  const double half = 0.5 * std::pow(10, -digits);  // what would be shown as 1,000 of a unit is 1 of the next
  const step* chosen = &steps[0];
  for (const step& each : steps) {
    const bool after_whole = what != base_unit::ns && &each == &steps[1];
    if (after_whole ? std::round(size) >= each.from : size >= each.from * (1 - half)) chosen = &each;
  }
  return *chosen;
}

// The power of ten of the last digit that a margin justifies.
int last_digit(double margin) {
  const auto first = static_cast<int>(std::floor(std::log10(margin)));
  return margin < 2 * std::pow(10, first) ? first - 1 : first;
}

// Rounded to that power of ten.
std::string rounded_to(double value, int power) {
  const double unit = std::pow(10, std::abs(power));
  return power > 0 ? with_commas(std::round(value / unit) * unit, 0)
                   : with_commas(std::round(value * unit) / unit, -power);
}

constexpr double negligible_margin = 0.005;  // as a part of the figure

}  // namespace

quantity spelled(base_unit what, double value, int digits) {
  const double size = std::abs(value);
  const double half = 0.5 * std::pow(10, -digits);
  const step& chosen = step_for(what, size, digits);
  const double scaled = size / chosen.size;
  const bool whole =
      std::abs(scaled - std::round(scaled)) <= 1e-9 * scaled || (chosen.from == 0 && what != base_unit::ns);
  int places = whole ? 0 : digits - 1;
  for (double bound = 10; places > 0 && scaled >= bound * (1 - half); bound *= 10) --places;
  const double scale = std::pow(10, places);
  const double rounded = std::round(scaled * scale) / scale;
  const double sign = value < 0 && rounded > 0 ? -1 : 1;
  return {(sign < 0 ? "-" : "") + with_commas(rounded, places) + chosen.name, sign * rounded * chosen.size};
}

std::string say_estimate(base_unit what, double value, double margin, double most) {
  if (!(margin > 0) || margin < negligible_margin * value) return say(what, value);
  const bool reaches_zero = margin >= value;
  const double unit = std::pow(10, last_digit(margin));
  const double size = reaches_zero ? std::min(value + margin, most) : std::round(value / unit) * unit;
  const step& chosen = step_for(what, size, 3);
  const double scaled = (reaches_zero ? size : value) / chosen.size;
  // Of what can only be whole, no decimals.
  const int least = chosen.from == 0 && what != base_unit::ns ? 0 : -2;
  if (reaches_zero) {
    if (least == 0 && scaled < 0.5) return say(what, 0);
    const int power = static_cast<int>(std::floor(std::log10(scaled))) - 1;
    return "up to " + rounded_to(scaled, std::max(power, least)) + chosen.name;
  }
  const int power = std::max(last_digit(margin / chosen.size), least);
  const std::string text = rounded_to(scaled, power);
  const std::string around = rounded_to(margin / chosen.size, power);
  return text + (what == base_unit::count ? chosen.name : "") + " ± " + around + chosen.name;
}

std::string say(base_unit what, double value) { return spelled(what, value).text; }
std::string say_time(double ns) { return say(base_unit::ns, ns); }
std::string say_seconds(double seconds) { return say(base_unit::ns, 1e9 * seconds); }
std::string say_bytes(double bytes) { return say(base_unit::bytes, bytes); }
std::string say_count(double count) { return say(base_unit::count, count); }

std::string say_share(double part, double whole, double margin, double most) {
  const double percent = whole > 0 ? 100 * part / whole : 0;
  const double size = std::abs(percent);
  if (whole > 0 && margin > 0 && margin >= std::abs(part)) {
    const double upper =
        100 * std::min(std::max(whole, std::abs(part)), std::min(std::abs(part) + margin, most)) / whole;
    const int power = static_cast<int>(std::floor(std::log10(upper))) - 1;
    return "<" + rounded_to(upper, std::max(power, -2)) + " %";
  }
  if (size > 0 && size < 0.005) return "<0.01 %";
  int power = size >= 9.95 || size == 0 ? 0 : (size >= 0.995 ? -1 : -2);
  if (whole > 0 && margin > 0 && size > 0) {
    const auto first = static_cast<int>(std::floor(std::log10(size)));
    power = std::max(power, std::min(last_digit(100 * margin / whole), first));
  }
  return (percent < 0 ? "-" : "") + rounded_to(size, power) + " %";
}

std::string say_exactly(std::uint64_t bytes) {
  std::size_t unit = 0;
  while (unit + 1 < sizes.size() && bytes > 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return with_commas(static_cast<double>(bytes), 0) + sizes[unit].name;
}

}  // namespace tarn::profiler
