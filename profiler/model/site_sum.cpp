// SPDX-License-Identifier: MIT
#include "profiler/model/site_sum.hpp"

#include <algorithm>
#include <bit>

#include "profiler/model/figure_columns.hpp"

namespace tarn::profiler {

void add_size(std::vector<size_count>& into, const size_count& from) {
  const auto same = std::find_if(into.begin(), into.end(), [&from](const size_count& one) {
    return one.size == from.size && one.exact == from.exact;
  });
  if (same == into.end()) {
    into.push_back(from);
  } else {
    same->count += from.count;
  }
}

namespace {

// The sizes of a site are either all exact or all powers of two; if either list is of powers of two, so is the sum.
void add_sizes(std::vector<size_count>& into, const std::vector<size_count>& from) {
  const auto is_coarse = [](const std::vector<size_count>& sizes) {
    return !sizes.empty() && !sizes[0].exact;
  };
  const bool coarse = is_coarse(into) || is_coarse(from);
  std::vector<size_count> sum;
  for (const std::vector<size_count>* sizes : {static_cast<const std::vector<size_count>*>(&into), &from}) {
    for (size_count one : *sizes) {
      if (coarse && one.exact) one = {one.size == 0 ? 1 : std::bit_floor(one.size), one.count, false};
      add_size(sum, one);
    }
  }
  std::stable_sort(sum.begin(), sum.end(),
                   [](const size_count& left, const size_count& right) { return left.count > right.count; });
  into = std::move(sum);
}

void add_lifetimes(std::vector<lifetime_count>& into, const std::vector<lifetime_count>& from) {
  for (const lifetime_count& one : from) {
    const auto same = std::find_if(into.begin(), into.end(), [&one](const lifetime_count& other) {
      return other.lifetime == one.lifetime && other.size == one.size;
    });
    if (same == into.end()) {
      into.push_back(one);
    } else {
      same->count += one.count;
      same->bytes += one.bytes;
    }
  }
}

}  // namespace

bool is_peak(double site_figures::*member) {
  return member == &site_figures::peak_bytes || member == &site_figures::bytes_at_peak;
}

bool is_running_total(double counter_row::*member) {
  return member != &counter_row::resident_bytes && member != &counter_row::live_bytes &&
         member != &counter_row::live;
}

void add_figures(site_figures& into, const site_figures& from) {
  for (const figure_column& each : figure_columns) {
    double& sum = into.*each.member;
    const double more = from.*each.member;
    sum = is_peak(each.member) ? std::max(sum, more) : sum + more;
  }
}

void add_site(site& into, const site& from) {
  add_figures(into.figures, from.figures);
  if (into.evidence == type_evidence::none ||
      (from.evidence != type_evidence::none && from.evidence < into.evidence)) {
    into.evidence = from.evidence;
  }
  add_sizes(into.sizes, from.sizes);
  add_lifetimes(into.lifetimes, from.lifetimes);
  into.threads.insert(into.threads.end(), from.threads.begin(), from.threads.end());
}

}  // namespace tarn::profiler
