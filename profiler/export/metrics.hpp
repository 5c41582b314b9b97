// SPDX-License-Identifier: MIT
// metrics: the quantities by which a profile can be sorted and drawn, under the names that users give. Every metric
// has the same rows: the sites, and faults outside of sites, so its sum is the same in every view; that of `cost`
// is cost_of_all().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/format/quantity.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct metric {
  std::string_view name;
  base_unit unit;
  std::string_view meaning;  // a phrase
  double (*of)(const profile& p, const site_figures& figures);
  double (*variance)(const profile& p, const site_figures& figures);  // due to sampling; 0: exact
  double (*bias)(const profile& p,
                 const site_figures& figures) = nullptr;  // a standard error that recordings share
};

inline constexpr std::size_t metric_count = 9;
std::span<const metric> metrics();
// False: the profile is of a black box or a core file, which has no figures for it.
bool is_known(const profile& p, const metric& what);
const metric* find_metric(std::string_view name);  // null: there is none
std::string metric_names();                        // "cost, malloc, ..."

// A row: a site, or faults that no site has, under a label in brackets.
struct metric_row {
  enum class outside : std::uint8_t { elsewhere, unseen };  // of allocated memory; of what was seen

  const site* who = nullptr;
  outside faults = outside::elsewhere;  // where there is no site

  std::string_view label() const noexcept;  // of faults outside of sites
  site_figures figures(const profile& p) const;

  // The row's frames, innermost first; faults outside of sites have one frame, named by the label.
  std::vector<source_frame> frames(const profile& p) const;
};

// The sites in the profile's order, then the faults outside of sites, if any.
std::vector<metric_row> metric_rows(const profile& p);
double sum_of(const profile& p, const metric& what);

// Half the width of the 95 % interval; 0: exact, or not known.
double margin_of(const profile& p, const metric& what, const site_figures& figures);
double margin_of_sum(const profile& p, const metric& what);

}  // namespace tarn::profiler
