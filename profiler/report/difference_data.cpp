// SPDX-License-Identifier: MIT
#include "profiler/report/difference_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "profiler/report/string_table.hpp"

namespace tarn::profiler {

namespace {

using nlohmann::json;
using change_row = std::array<change, metric_count>;

const char* unit_name(base_unit unit) {
  if (unit == base_unit::ns) return "ns";
  return unit == base_unit::bytes ? "bytes" : "count";
}

// By how much of the total a row has changed, in the metric where that is most; what may be chance counts as nothing.
double weight_of(const change_row& values, const change_row& totals) {
  double most = 0;
  for (std::size_t index = 0; index < values.size(); ++index) {
    const double whole = std::max(totals[index].before, totals[index].after);
    if (whole > 0 && values[index].is_significant())
      most = std::max(most, std::abs(values[index].amount()) / whole);
  }
  return most;
}

void add_values(json& columns, const change_row& values) {
  for (std::size_t index = 0; index < values.size(); ++index) {
    json& column = columns[std::string(metrics()[index].name)];
    column["before"].push_back(std::llround(values[index].before));
    column["after"].push_back(std::llround(values[index].after));
    column["margin"].push_back(std::llround(values[index].margin));
  }
}

// The rows that changed most, and how much all others are before and after, which have no margin: each may be chance.
std::vector<std::uint32_t> rows_of(const difference& changes, std::size_t most, change_row& others) {
  std::vector<double> weights;
  for (std::size_t row = 0; row < changes.sites.size(); ++row)
    weights.push_back(weight_of(changes.sites[row].values, changes.totals));
  std::vector<std::uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t left, std::uint32_t right) { return weights[left] > weights[right]; });
  for (std::size_t place = std::min(most, order.size()); place < order.size(); ++place) {
    for (std::size_t index = 0; index < others.size(); ++index) {
      others[index].before += changes.sites[order[place]].values[index].before;
      others[index].after += changes.sites[order[place]].values[index].after;
    }
  }
  return order;
}

}  // namespace

json difference_data(const difference& changes, std::size_t most_rows) {
  string_table strings;
  json sites = {{"function", json::array()}, {"file", json::array()},    {"line", json::array()},
                {"type", json::array()},     {"callers", json::array()}, {"values", json::object()}};
  change_row others;
  const std::vector<std::uint32_t> order = rows_of(changes, most_rows, others);
  for (std::size_t place = 0; place < std::min(most_rows, order.size()); ++place) {
    const site_change& one = changes.sites[order[place]];
    const source_frame& where = changes.place_of(one);
    sites["function"].push_back(strings.number_of(where.function));
    sites["file"].push_back(strings.number_of(where.file));
    sites["line"].push_back(where.line);
    sites["type"].push_back(strings.number_of(changes.type_of(one)));
    sites["callers"].push_back(strings.number_of(changes.callers_of(one)));
    add_values(sites["values"], one.values);
  }
  json kinds = json::array();
  for (const metric& one : metrics())
    kinds.push_back({{"name", one.name}, {"unit", unit_name(one.unit)}, {"meaning", one.meaning}});
  json totals = json::object();
  add_values(totals, changes.totals);
  json rest = json::object();
  add_values(rest, others);
  return {
      {"recordings", {changes.recordings_before, changes.recordings_after}},
      {"metrics", std::move(kinds)},
      {"totals", std::move(totals)},
      {"sites", std::move(sites)},
      {"others", {{"count", order.size() - std::min(most_rows, order.size())}, {"values", std::move(rest)}}},
      {"strings", strings.texts()}};
}

}  // namespace tarn::profiler
