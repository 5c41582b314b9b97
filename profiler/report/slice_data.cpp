// SPDX-License-Identifier: MIT
#include "profiler/report/slice_data.hpp"

#include <cmath>
#include <map>
#include <utility>

namespace tarn::profiler {

using nlohmann::json;

namespace {

// The row of each call path that has a site: of its first one, where there are several types.
std::map<std::uint32_t, std::uint32_t> rows_by_stack(const profile& p, const std::vector<site_row>& rows,
                                                     path_tree& paths, string_table& strings) {
  std::map<std::uint32_t, std::uint32_t> named;                             // by site
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> summed;  // by place and type
  std::uint32_t beyond = 0;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    if (rows[row].kind == row_kind::site) named[rows[row].index] = row;
    if (rows[row].kind != row_kind::rest) continue;
    summed[{rows[row].place, rows[row].type}] = row;
    beyond = row;
  }
  std::map<std::uint32_t, std::uint32_t> found;
  for (std::uint32_t index = 0; index < p.sites.size(); ++index) {
    const site& one = p.sites[index];
    const auto known = named.find(index);
    if (known != named.end()) {
      found.try_emplace(one.stack, known->second);
      continue;
    }
    const auto sum = summed.find({paths.place_of(one.stack), strings.number_of(one.type)});
    found.try_emplace(one.stack, sum != summed.end() ? sum->second : beyond);
  }
  return found;
}

}  // namespace

json slice_data(const profile& p, const std::vector<site_row>& rows, const event_slices& slices,
                path_tree& paths, string_table& strings) {
  if (slices.ends_ns.empty()) return nullptr;
  const std::map<std::uint32_t, std::uint32_t> row_of = rows_by_stack(p, rows, paths, strings);
  std::map<std::pair<std::uint32_t, std::uint32_t>, slice_cell> sums;
  for (const slice_cell& one : slices.cells) {
    const auto row = row_of.find(one.stack);
    if (row == row_of.end()) continue;
    slice_cell& sum = sums[{one.slice, row->second}];
    sum.allocations += one.allocations;
    sum.bytes += one.bytes;
    sum.grown += one.grown;
  }
  json made = {{"end_ns", slices.ends_ns},     {"slice", json::array()}, {"row", json::array()},
               {"allocations", json::array()}, {"bytes", json::array()}, {"grown", json::array()}};
  for (const auto& [place, sum] : sums) {
    made["slice"].push_back(place.first);
    made["row"].push_back(place.second);
    made["allocations"].push_back(std::llround(sum.allocations));
    made["bytes"].push_back(std::llround(sum.bytes));
    made["grown"].push_back(std::llround(sum.grown));
  }
  return made;
}

}  // namespace tarn::profiler
