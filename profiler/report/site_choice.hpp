// SPDX-License-Identifier: MIT
// site_choice: chooses the sites that a report names one by one. The others are included as sums, so that totals
// stay complete. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct choice_limits {
  double cost_share = 0.999;  // share of the cost that named sites must cover
  double other_share = 0.99;  // share of bytes, calls, memory at the peak, at the end, and untouched
  std::size_t least = 2000;   // up to this many sites, all are named
  std::size_t most = 20'000;  // largest number of named sites
};

// Indices into p.sites, costliest first. `costs` holds cost_of() of each site.
std::vector<std::uint32_t> chosen_sites(const profile& p, const std::vector<cost>& costs,
                                        const choice_limits& limits);

}  // namespace tarn::profiler
