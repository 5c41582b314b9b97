// SPDX-License-Identifier: MIT
#include "profiler/collect/call_times.hpp"

#include <algorithm>

namespace tarn::profiler {

void timed_calls::add(double call_weight, double call_ns) noexcept {
  const double square = call_weight * call_weight;
  weight += call_weight;
  ns += call_weight * call_ns;
  weight2 += square;
  weight2_ns += square * call_ns;
  weight2_ns2 += square * call_ns * call_ns;
}

void timed_calls::add(const timed_calls& more) noexcept {
  weight += more.weight;
  ns += more.ns;
  weight2 += more.weight2;
  weight2_ns += more.weight2_ns;
  weight2_ns2 += more.weight2_ns2;
}

void timed_calls::lower(double call_weight, double from_ns, double to_ns) noexcept {
  const double square = call_weight * call_weight;
  ns -= call_weight * (from_ns - to_ns);
  weight2_ns -= square * (from_ns - to_ns);
  weight2_ns2 -= square * (from_ns * from_ns - to_ns * to_ns);
}

void timed_calls::shorten(double ns_each, double least_part) noexcept {
  const double less = std::min(ns_each, (1 - least_part) * mean());
  ns -= less * weight;
  weight2_ns2 += less * less * weight2 - 2 * less * weight2_ns;
  weight2_ns -= less * weight2;
}

void site_times::add(const site_times& more) noexcept {
  gets.add(more.gets);
  gives.add(more.gives);
  large_ns += more.large_ns;
  large_calls += more.large_calls;
  free_calls += more.free_calls;
}

double site_times::small_mean(double otherwise) const noexcept {
  const double calls = gets.weight + gives.weight - large_calls;
  return calls > 0 ? std::max(0.0, gets.ns + gives.ns - large_ns) / calls : otherwise;
}

estimate time_of_calls(const timed_calls& timed, double calls, double otherwise) {
  if (timed.weight <= 0) return {calls * otherwise, 0};
  const double mean = timed.mean();
  const double residuals =
      std::max(0.0, timed.weight2_ns2 - 2 * mean * timed.weight2_ns + mean * mean * timed.weight2);
  const double scale = calls / timed.weight;
  // Finite population correction: with every call timed, the sampling variance is 0.
  const bool stand_for_more = timed.weight2 > timed.weight;
  const double left_out = stand_for_more ? 1 : std::clamp(1 - timed.weight / std::max(calls, 1.0), 0.0, 1.0);
  return {calls * mean, scale * scale * residuals * left_out};
}

void largest_calls::add(const call& one) noexcept {
  ++count_;
  if (one.part() <= largest_.back().part()) return;
  largest_.back() = one;
  for (std::size_t at = most; at > 0 && largest_[at].part() > largest_[at - 1].part(); --at) {
    std::swap(largest_[at], largest_[at - 1]);
  }
}

std::vector<largest_calls::excess> largest_calls::over_the_rest() const {
  const std::size_t cut = std::min({most, count_ / 9, std::max<std::size_t>(8, count_ / 50)});
  std::vector<excess> result;
  for (std::size_t index = 0; index < cut; ++index) {
    const call& one = largest_[index];
    result.push_back({one, one.ns - largest_[cut].part() / one.weight});
  }
  return result;
}

}  // namespace tarn::profiler
