// SPDX-License-Identifier: MIT
#include "profiler/report/site_rows.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tarn::profiler {

namespace {

double untouched_bytes(const site_figures& figures) {
  return sane_figure(figures.checked_bytes - figures.resident_bytes);
}

void add(site_row& sum, const site_figures& figures, const cost& paid) {
  for (const figure_column& one : figure_columns) {
    if (is_additive(one)) sum.figures.*one.member += sane_figure(figures.*one.member);
    if (is_variance(one)) sum.figures.*one.member += sane_variance(figures.*one.member);
  }
  sum.paid.malloc_variance += sane_variance(paid.malloc_variance);
  sum.paid.malloc_bias += sane_figure(paid.malloc_bias);
  sum.paid.kernel_variance += sane_variance(paid.kernel_variance);
  sum.paid.malloc_ns += sane_figure(paid.malloc_ns);
  sum.paid.fault_ns += sane_figure(paid.fault_ns);
  sum.paid.unmap_ns += sane_figure(paid.unmap_ns);
  sum.untouched += untouched_bytes(figures);
}

void add(site_row& sum, const site_row& more) {
  add(sum, more.figures, more.paid);
  sum.sites += more.sites;
}

// The unnamed sites, summed by place and type; all but the `most` costliest sums are merged into one row without a
// place.
std::vector<site_row> rest_of(const profile& p, const std::vector<cost>& costs,
                              const std::vector<bool>& is_named, path_tree& paths, string_table& strings,
                              std::size_t most) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, site_row> by_place;
  for (std::uint32_t index = 0; index < p.sites.size(); ++index) {
    if (is_named[index]) continue;
    const std::uint32_t place = paths.place_of(p.sites[index].stack);
    const std::uint32_t type = strings.number_of(p.sites[index].type);
    site_row& row =
        by_place.try_emplace({place, type}, site_row{row_kind::rest, 0, place, type, 0, {}, {}, 0})
            .first->second;
    add(row, p.sites[index].figures, costs[index]);
    ++row.sites;
  }
  std::vector<site_row> rows;
  rows.reserve(by_place.size());
  for (const auto& [place, row] : by_place) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const site_row& left, const site_row& right) {
    return left.paid.total() > right.paid.total();
  });
  if (rows.size() > most) {
    site_row beyond{row_kind::rest, 0, path_tree::no_frame, 0, 0, {}, {}, 0};
    for (std::size_t index = most; index < rows.size(); ++index) add(beyond, rows[index]);
    rows.resize(most);
    rows.push_back(beyond);
  }
  return rows;
}

}  // namespace

// Peaks of sites are not of the same time, and malloc_ns is shown as a part of the cost.
bool is_additive(const figure_column& one) {
  return one.member != &site_figures::peak_bytes && one.member != &site_figures::malloc_ns &&
         !is_variance(one);
}

std::vector<site_row> rows_of(const profile& p, const std::vector<cost>& costs,
                              const std::vector<std::uint32_t>& named, path_tree& paths,
                              string_table& strings, std::size_t most_places) {
  std::vector<site_row> rows;
  std::vector<bool> is_named(p.sites.size());
  for (const std::uint32_t index : named) {
    is_named[index] = true;
    site_row one;
    one.index = index;
    one.place = paths.place_of(p.sites[index].stack);
    one.type = strings.number_of(p.sites[index].type);
    add(one, p.sites[index].figures, costs[index]);
    one.figures.peak_bytes = sane_figure(p.sites[index].figures.peak_bytes);
    rows.push_back(one);
  }
  const std::vector<site_row> rest = rest_of(p, costs, is_named, paths, strings, most_places);
  rows.insert(rows.end(), rest.begin(), rest.end());
  site_row all;
  for (const site_row& one : rows) add(all, one);
  const cost whole = cost_of_all(p);
  site_row outside{row_kind::outside, 0, path_tree::no_frame, 0, 0, {}, {}, 0};
  outside.figures.faults = sane_figure(p.other_faults) + sane_figure(p.unseen_faults);
  outside.paid.malloc_ns = sane_figure(whole.malloc_ns - all.paid.malloc_ns);
  outside.paid.fault_ns = sane_figure(whole.fault_ns - all.paid.fault_ns);
  outside.paid.unmap_ns = sane_figure(whole.unmap_ns - all.paid.unmap_ns);
  outside.figures.faults_variance = sane_variance(other_faults_variance(p));
  outside.paid.kernel_variance = cost_of(p, outside.figures).kernel_variance;
  rows.push_back(outside);
  return rows;
}

}  // namespace tarn::profiler
