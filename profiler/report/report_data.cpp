// SPDX-License-Identifier: MIT
#include "profiler/report/report_data.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "profiler/analyze/memory_kinds.hpp"
#include "profiler/analyze/trouble.hpp"
#include "profiler/model/store_profile.hpp"
#include "profiler/model/table_rows.hpp"
#include "profiler/report/path_tree.hpp"
#include "profiler/report/site_rows.hpp"
#include "profiler/report/slice_data.hpp"
#include "profiler/report/source_lines.hpp"
#include "profiler/report/string_table.hpp"

namespace tarn::profiler {

namespace {

using nlohmann::json;

// The node of a row's call path; for sites summed by place, a node that says so.
std::uint32_t node_of(const profile& p, const site_row& row, path_tree& paths) {
  if (row.kind == row_kind::outside) return 0;
  return row.kind == row_kind::site ? paths.node_of(p.sites[row.index].stack)
                                    : paths.node_below("Smaller sites", row.place);
}

template <class Value>
void add_column(json& columns, json& totals, const char* name, const std::vector<site_row>& rows,
                Value&& value) {
  whole_column column;
  for (const site_row& row : rows) column.add(value(row));
  columns[name] = column.values();
  totals[name] = column.total();
}

// Two digits are enough for a margin. There is no column for a figure that is exact in all rows.
void add_variances(json& columns, const std::vector<site_row>& rows) {
  for (const variance_column& each : variance_columns) {
    json values = json::array();
    bool is_exact = true;
    for (const site_row& row : rows) {
      const double value = sane_variance(each.of(row.figures, row.paid));
      is_exact = is_exact && value == 0;
      const double unit = value > 0 ? std::pow(10, std::floor(std::log10(value)) - 2) : 1;
      values.push_back(unit * std::round(value / unit));
    }
    if (!is_exact) columns[each.name] = std::move(values);
  }
}

struct sites_json {
  json columns = json::object();
  json totals = json::object();
};

sites_json describe_rows(const profile& p, const std::vector<site_row>& rows, path_tree& paths) {
  sites_json made;
  for (const char* name : {"kind", "stack", "place", "type", "evidence", "sites", "peak_bytes"}) {
    made.columns[name] = json::array();
  }
  for (const site_row& row : rows) {
    const bool is_site = row.kind == row_kind::site;
    const site* one = is_site ? &p.sites[row.index] : nullptr;
    made.columns["kind"].push_back(static_cast<int>(row.kind));
    made.columns["stack"].push_back(node_of(p, row, paths));
    made.columns["place"].push_back(row.place == path_tree::no_frame ? json(-1) : json(row.place));
    made.columns["type"].push_back(row.type);
    made.columns["evidence"].push_back(is_site ? static_cast<int>(one->evidence) : 0);
    made.columns["sites"].push_back(std::llround(row.sites));
    made.columns["peak_bytes"].push_back(std::llround(row.figures.peak_bytes));
  }
  add_column(made.columns, made.totals, "malloc_ns", rows,
             [](const site_row& row) { return row.paid.malloc_ns; });
  add_column(made.columns, made.totals, "fault_ns", rows,
             [](const site_row& row) { return row.paid.fault_ns; });
  add_column(made.columns, made.totals, "unmap_ns", rows,
             [](const site_row& row) { return row.paid.unmap_ns; });
  add_column(made.columns, made.totals, "untouched_bytes", rows,
             [](const site_row& row) { return row.untouched; });
  for (const figure_column& figure : figure_columns) {
    if (!is_additive(figure)) continue;
    add_column(made.columns, made.totals, figure.name, rows,
               [&figure](const site_row& row) { return row.figures.*figure.member; });
  }
  add_variances(made.columns, rows);
  made.totals["sites"] = p.sites.size();
  return made;
}

// ---- the costliest sites in detail ----

template <class Row>
std::vector<Row> most_of(std::vector<Row> rows, std::size_t most) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& left, const Row& right) { return left.count > right.count; });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

// The report's thread numbers; threads other than the busiest share one.
using thread_numbers = std::vector<std::uint32_t>;

json describe_details(const profile& p, const std::vector<std::uint32_t>& named,
                      const thread_numbers& threads, const report_limits& limits) {
  json made = {{"sizes", json::array()}, {"lifetimes", json::array()}, {"threads", json::array()}};
  const std::size_t count = std::min(named.size(), limits.most_detailed);
  for (std::size_t row = 0; row < count; ++row) {
    const site& one = p.sites[named[row]];
    for (const size_count& size : most_of(one.sizes, limits.most_site_rows)) {
      made["sizes"].push_back({row, size.size, std::llround(sane_figure(size.count)), size.exact ? 1 : 0});
    }
    for (const lifetime_count& cell : most_of(one.lifetimes, limits.most_site_rows)) {
      made["lifetimes"].push_back({row, cell.lifetime, cell.size, std::llround(sane_figure(cell.count)),
                                   std::llround(sane_figure(cell.bytes))});
    }
    for (const thread_pair& pair : most_of(one.threads, limits.most_site_rows)) {
      if (pair.from >= threads.size() || pair.to >= threads.size()) continue;
      made["threads"].push_back({row, threads[pair.from], threads[pair.to],
                                 std::llround(sane_figure(pair.count)),
                                 std::llround(sane_figure(pair.bytes))});
    }
  }
  return made;
}

// ---- the program as a whole ----

struct sum_of_blocks {
  double count = 0;
  double bytes = 0;
};

json describe_lifetimes(const profile& p) {
  std::map<std::pair<unsigned, unsigned>, sum_of_blocks> cells;
  for (const site& one : p.sites) {
    for (const lifetime_count& cell : one.lifetimes) {
      sum_of_blocks& sum = cells[{cell.lifetime, cell.size}];
      sum.count += sane_figure(cell.count);
      sum.bytes += sane_figure(cell.bytes);
    }
  }
  json made = json::array();
  for (const auto& [place, sum] : cells) {
    made.push_back({place.first, place.second, std::llround(sum.count), std::llround(sum.bytes)});
  }
  return made;
}

// The busiest threads keep a number of their own, in the order of the profile; the others share the last.
thread_numbers number_threads(const profile& p, std::size_t most) {
  std::vector<double> blocks(p.threads.size());
  for (const site& one : p.sites) {
    for (const thread_pair& pair : one.threads) {
      if (pair.from < blocks.size()) blocks[pair.from] += sane_figure(pair.count);
      if (pair.to < blocks.size()) blocks[pair.to] += sane_figure(pair.count);
    }
  }
  std::vector<std::uint32_t> order(p.threads.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t left, std::uint32_t right) { return blocks[left] > blocks[right]; });
  if (order.size() > most) order.resize(most);
  std::sort(order.begin(), order.end());
  thread_numbers numbers(p.threads.size(), static_cast<std::uint32_t>(order.size()));
  for (std::uint32_t number = 0; number < order.size(); ++number) numbers[order[number]] = number;
  return numbers;
}

json describe_threads(const profile& p, const thread_numbers& numbers, std::size_t most) {
  json made = json::array();
  std::size_t others = 0;
  for (std::size_t index = 0; index < p.threads.size(); ++index) {
    const thread_info& one = p.threads[index];
    if (numbers[index] >= most) {
      ++others;
      continue;
    }
    made.push_back(as_json(one));
  }
  if (others > 0) made.push_back({{"others", others}});
  return made;
}

json describe_pairs(const profile& p, const thread_numbers& numbers) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, sum_of_blocks> pairs;
  for (const site& one : p.sites) {
    for (const thread_pair& pair : one.threads) {
      if (pair.from >= numbers.size() || pair.to >= numbers.size()) continue;
      sum_of_blocks& sum = pairs[{numbers[pair.from], numbers[pair.to]}];
      sum.count += sane_figure(pair.count);
      sum.bytes += sane_figure(pair.bytes);
    }
  }
  json made = json::array();
  for (const auto& [who, sum] : pairs) {
    made.push_back({who.first, who.second, std::llround(sum.count), std::llround(sum.bytes)});
  }
  return made;
}

// Merges rows first..last into one: totals are those of the last row; resident and live memory are each the highest
// of the rows.
counter_row merged(const std::vector<counter_row>& rows, std::size_t first, std::size_t last) {
  counter_row sum = rows[last];
  for (std::size_t index = first; index < last; ++index) {
    sum.resident_bytes = std::max(sum.resident_bytes, rows[index].resident_bytes);
    sum.live_bytes = std::max(sum.live_bytes, rows[index].live_bytes);
    sum.live = std::max(sum.live, rows[index].live);
  }
  return sum;
}

json describe_counters(const std::vector<counter_row>& rows, std::size_t most) {
  json made = json::object();
  made["time_ns"] = json::array();
  for (const counter_column& one : counter_columns) made[one.name] = json::array();
  const std::size_t kept = std::min(rows.size(), std::max<std::size_t>(1, most));
  for (std::size_t index = 0; index < kept; ++index) {
    const std::size_t first = index * rows.size() / kept;
    const std::size_t last = (index + 1) * rows.size() / kept - 1;
    const counter_row row = merged(rows, first, last);
    made["time_ns"].push_back(row.time_ns);
    for (const counter_column& one : counter_columns) {
      made[one.name].push_back(std::llround(sane_figure(row.*one.member)));
    }
  }
  return made;
}

// What resident memory consisted of, at the moment that every view shows; null: not in the profile.
json describe_memory(const profile& p, std::size_t most_parts) {
  const memory_row* row = reading_for(p, trouble_of(p));
  if (row == nullptr) return nullptr;
  json kinds = json::array();
  for (const memory_kind& kind : memory_kinds) {
    json parts = json::array();
    for (const placed_memory& part : placed_parts(p, *row, kind)) {
      if (parts.size() == most_parts) break;
      parts.push_back({{"name", part.where.function},
                       {"file", part.where.file},
                       {"line", part.where.line},
                       {"bytes", std::llround(sane_figure(part.bytes))},
                       {"variance", sane_variance(part.variance)}});
    }
    kinds.push_back({{"name", kind.name},
                     {"text", text_of(kind, p)},
                     {"bytes", std::llround(sane_figure(row->*kind.member))},
                     {"parts", std::move(parts)}});
  }
  return {{"time_ns", row->time_ns},
          {"resident_bytes", std::llround(sane_figure(row->sum()))},
          {"untouched", std::llround(sane_figure(row->untouched))},
          {"kinds", std::move(kinds)}};
}

// What shares are of, and the variances of sums, which are not the sums of the rows' variances.
json describe_whole(const profile& p) {
  const site_figures sums = sum_with_variances(p);
  return {{"processor_ns", std::llround(sane_figure(processor_ns(p)))},
          {"cost_variance", sane_variance(cost_of_all(p).whole_variance())},
          {"allocations_variance", sane_variance(sums.allocations_variance)},
          {"bytes_variance", sane_variance(sums.bytes_variance)}};
}

json describe_action(const advice& one, const std::vector<std::uint32_t>& named) {
  const auto row = one.sites.empty() ? named.end() : std::find(named.begin(), named.end(), one.site);
  return {{"kind", kind_name(one.kind)},
          {"leaves", one.kind == advice_kind::leave_it},
          {"headline", one.headline},
          {"place", one.place},
          {"reason", one.reason},
          {"change", one.change},
          {"evidence", one.evidence},
          {"who", one.kind == advice_kind::leave_it ? "" : reach_name(one.reach)},
          {"figures", say_figures(one)},
          {"share", sane_figure(one.share)},
          {"instead_of", one.instead_of >= 0 ? json(one.instead_of) : json()},
          {"sites", one.sites.size()},
          {"site", row != named.end() ? json(row - named.begin()) : json()}};
}

json describe_actions(const std::vector<advice>& actions, const std::vector<std::uint32_t>& named) {
  json made = json::array();
  for (const advice& one : actions) made.push_back(describe_action(one, named));
  return made;
}

}  // namespace

nlohmann::json report_data(const profile& p, const std::vector<advice>& actions, const report_limits& limits,
                           const event_slices& slices) {
  std::vector<cost> costs;
  costs.reserve(p.sites.size());
  for (const site& one : p.sites) costs.push_back(cost_of(p, one.figures));
  const std::vector<std::uint32_t> named = chosen_sites(p, costs, limits.sites);
  const thread_numbers threads = number_threads(p, limits.most_threads);

  string_table strings;
  path_tree paths(p, strings);
  const std::vector<site_row> rows = rows_of(p, costs, named, paths, strings, limits.most_places);
  sites_json sites = describe_rows(p, rows, paths);
  json parts = slice_data(p, rows, slices, paths, strings);
  json made = {{"format", 1},
               {"meta", p.meta.is_object() ? p.meta : json::object()},
               {"mode", mode_name(p.mode)},
               {"prices", as_json(p.prices)},
               {"totals", std::move(sites.totals)},
               {"sites", std::move(sites.columns)},
               {"slices", std::move(parts)},
               {"frames", paths.frames_json()},
               {"stacks", paths.nodes_json()},
               {"nameless", json::object()},
               {"whole", describe_whole(p)},
               {"strings", strings.texts()},
               {"details", describe_details(p, named, threads, limits)},
               {"lifetimes", describe_lifetimes(p)},
               {"threads", describe_threads(p, threads, limits.most_threads)},
               {"pairs", describe_pairs(p, threads)},
               {"counters", describe_counters(p.counters, limits.most_counters)},
               {"memory", describe_memory(p, limits.most_memory_parts)},
               {"actions", describe_actions(actions, named)}};
  const trouble what = trouble_of(p);
  made["trouble"] = {{"kind", name_of(what.kind)},
                     {"is_memory", what.is_memory()},
                     {"sentence", what.peak_bytes > 0 ? sentence_of(what) : ""}};
  for (const auto& [frame, hint] : paths.hints()) made["nameless"][std::to_string(frame)] = hint;
  made["quality"] = {{"other_faults", sane_figure(p.other_faults)},
                     {"unseen_faults", sane_figure(p.unseen_faults)},
                     {"lost_events", sane_figure(p.lost_events)},
                     {"unwind_error_rate", sane_figure(p.unwind_error_rate)},
                     {"unwind_checked", sane_figure(p.unwind_checked)},
                     {"damage", p.damage},
                     {"detailed_sites", std::min(named.size(), limits.most_detailed)}};
  if (limits.most_source_bytes > 0) {
    source_limits sources;
    sources.most_bytes = limits.most_source_bytes;
    made["sources"] = source_lines(made, sources);
  }
  return made;
}

}  // namespace tarn::profiler
