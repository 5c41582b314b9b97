// SPDX-License-Identifier: MIT
// site_choice: the sites that a report names one by one. The others stand in it as one sum, so that nothing is lost
// from the totals. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct choice_limits {
  double cost_share = 0.999;  // of the cost that named sites bear
  double other_share = 0.99;  // likewise of bytes, calls, memory at the peak, at the end, and untouched
  std::size_t least = 2000;   // sites, where there are as many: few of them need no choice
  std::size_t most = 20'000;  // sites, at most
};

// Indices into p.sites, dearest first. `costs` holds cost_of() of each site.
std::vector<std::uint32_t> chosen_sites(const profile& p, const std::vector<cost>& costs,
                                        const choice_limits& limits);

}  // namespace tarn::profiler
