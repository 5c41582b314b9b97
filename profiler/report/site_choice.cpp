// SPDX-License-Identifier: MIT
#include "profiler/report/site_choice.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "profiler/report/site_rows.hpp"

namespace tarn::profiler {

namespace {

using measure = std::function<double(std::uint32_t site)>;

// Marks the sites with the largest values that together cover `share` of the measure's sum; at most `most` of them.
void mark(std::vector<bool>& chosen, const measure& value, double share, std::size_t most) {
  std::vector<std::uint32_t> order(chosen.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<double> values(chosen.size());
  double total = 0;
  for (const std::uint32_t site : order) total += values[site] = sane_figure(value(site));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t left, std::uint32_t right) { return values[left] > values[right]; });
  double covered = 0;
  for (const std::uint32_t site : order) {
    if (most-- == 0 || values[site] <= 0 || covered >= share * total) return;
    chosen[site] = true;
    covered += values[site];
  }
}

}  // namespace

std::vector<std::uint32_t> chosen_sites(const profile& p, const std::vector<cost>& costs,
                                        const choice_limits& limits) {
  const auto figure = [&p](double site_figures::*member) {
    return [&p, member](std::uint32_t site) { return p.sites[site].figures.*member; };
  };
  const std::vector<measure> others = {
      figure(&site_figures::bytes), figure(&site_figures::allocations), figure(&site_figures::bytes_at_peak),
      figure(&site_figures::live_bytes), [&p](std::uint32_t site) {
        return p.sites[site].figures.checked_bytes - p.sites[site].figures.resident_bytes;
      }};
  const measure paid = [&costs](std::uint32_t site) { return costs[site].total(); };
  const std::size_t least = std::min(limits.least, limits.most / 2);
  std::vector<bool> chosen(p.sites.size(), p.sites.size() <= least);
  mark(chosen, paid, 1, least);
  // Half of the places are for the cost; the other measures share the other half.
  mark(chosen, paid, limits.cost_share, std::max<std::size_t>(1, limits.most / 2));
  for (const measure& other : others) {
    mark(chosen, other, limits.other_share, std::max<std::size_t>(1, limits.most / 2 / others.size()));
  }
  std::vector<std::uint32_t> kept;
  for (std::uint32_t site = 0; site < chosen.size(); ++site) {
    if (chosen[site]) kept.push_back(site);
  }
  std::stable_sort(kept.begin(), kept.end(), [&costs](std::uint32_t left, std::uint32_t right) {
    return costs[left].total() > costs[right].total();
  });
  return kept;
}

}  // namespace tarn::profiler
