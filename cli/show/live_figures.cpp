// SPDX-License-Identifier: MIT
#include "cli/show/live_figures.hpp"

#include <fmt/core.h>

#include <cmath>

#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr double least_seconds = 2;
constexpr double most_seconds = 30;  // between the two moments that are kept
constexpr double seconds_per_minute = 60;
constexpr double bytes_per_mib = 1 << 20;

std::string with_a_decimal(double value) {
  if (value < 0.05) return value > 0 ? "<0.1" : "0";
  return value < 999.95 ? fmt::format("{:.1f}", value) : profiler::say_count(value);
}

double total_of(const growth_log::sizes& all) {
  double sum = 0;
  for (const auto& [thing, bytes] : all) sum += bytes;
  return sum;
}

}  // namespace

std::string show_percent(double share) { return with_a_decimal(100 * share); }
std::string show_mib(double bytes) { return with_a_decimal(bytes / bytes_per_mib); }

std::string show_growth(std::optional<double> bytes_per_minute) {
  if (!bytes_per_minute) return "-";
  const double mib = *bytes_per_minute / bytes_per_mib;
  return std::abs(mib) < 0.05 ? "0" : (mib < 0 ? "-" : "+") + with_a_decimal(std::abs(mib));
}

void growth_log::add(double seconds, const sizes& now) {
  if (!first_) {
    first_ = moment{seconds, now};
    return;
  }
  const double begin = next_ ? next_->seconds : first_->seconds;
  if (seconds < begin + std::min(most_seconds, std::max(least_seconds, begin))) return;
  if (next_) first_ = std::move(next_);
  next_ = moment{seconds, now};
}

std::optional<double> growth_log::since(double seconds) const {
  if (!first_ || seconds < first_->seconds + least_seconds) return std::nullopt;
  return seconds_per_minute / (seconds - first_->seconds);
}

std::optional<double> growth_log::per_minute(double seconds, std::uint64_t thing, double now) const {
  const std::optional<double> factor = since(seconds);
  if (!factor) return std::nullopt;
  const auto then = first_->values.find(thing);
  return *factor * (now - (then == first_->values.end() ? 0 : then->second));
}

std::optional<double> growth_log::per_minute(double seconds, const sizes& now) const {
  const std::optional<double> factor = since(seconds);
  if (!factor) return std::nullopt;
  return *factor * (total_of(now) - total_of(first_->values));
}

}  // namespace tarn::cli
