// SPDX-License-Identifier: MIT
#include "profiler/export/call_prices.hpp"

#include <cmath>

#include "profiler/format/quantiles.hpp"

namespace tarn::profiler {

void call_prices::add(std::size_t side, const std::vector<timed_place>& places) {
  double calls = 0, ns = 0;
  for (const timed_place& one : places) {
    sums& to = places_[one.place];
    to.calls[side] += one.calls;
    to.ns[side] += one.ns;
    calls += one.calls;
    ns += one.ns;
  }
  if (calls > 0 && ns > 0) means_[side].push_back(ns / calls);
}

bool call_prices::is_known() const noexcept {
  return !means_[0].empty() && !means_[1].empty() && means_[0].size() + means_[1].size() > 2;
}

call_prices::comparison call_prices::price() const {
  comparison result;
  double calls = 0;
  for (const auto& [place, both] : places_) {
    if (both.calls[0] <= 0 || both.calls[1] <= 0) continue;
    const double of_place = both.calls[0] + both.calls[1];
    calls += of_place;
    result.before += of_place * both.ns[0] / both.calls[0];
    result.after += of_place * both.ns[1] / both.calls[1];
  }
  if (calls <= 0) return {};
  result.before /= calls;
  result.after /= calls;
  double squares = 0;
  for (const std::vector<double>& side : means_) {
    double mean = 0;
    for (const double one : side) mean += one / static_cast<double>(side.size());
    for (const double one : side) squares += (one / mean - 1) * (one / mean - 1);
  }
  result.error = std::sqrt(squares / static_cast<double>(means_[0].size() + means_[1].size() - 2));
  return result;
}

bool call_prices::are_equal() const {
  if (!is_known()) return false;
  const comparison found = price();
  if (found.before <= 0 || found.after <= 0) return false;
  const auto before = static_cast<double>(means_[0].size()), after = static_cast<double>(means_[1].size());
  const double bound = student_bound(means_[0].size() + means_[1].size() - 2, price_confidence);
  return std::abs(found.after / found.before - 1) <= bound * found.error * std::sqrt(1 / before + 1 / after);
}

double call_prices::of(const path_identity& place) const {
  const auto at = places_.find(place);
  if (at == places_.end()) return 0;
  const double calls = at->second.calls[0] + at->second.calls[1];
  return calls > 0 ? (at->second.ns[0] + at->second.ns[1]) / calls : 0;
}

}  // namespace tarn::profiler
