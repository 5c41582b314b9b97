// SPDX-License-Identifier: MIT
// Collapsed stacks, JSON and Prometheus' text.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "profiler/export/exports.hpp"
#include "profiler/model/figure_columns.hpp"

namespace tarn::profiler {

namespace {

// A frame's name between semicolons, on one line.
std::string collapsed_name(std::string name) {
  std::replace(name.begin(), name.end(), ';', ',');
  std::replace(name.begin(), name.end(), '\n', ' ');
  return name;
}

const char* evidence_name(type_evidence evidence) {
  switch (evidence) {
    case type_evidence::allocator:
      return "allocator";
    case type_evidence::constructor:
      return "constructor";
    case type_evidence::vtable:
      return "vtable";
    case type_evidence::none:
      break;
  }
  return "none";
}

nlohmann::json site_json(const profile& p, const site& one) {
  nlohmann::json frames = nlohmann::json::array();
  for (const source_frame& frame : frames_of(p, one.stack)) {
    frames.push_back({{"function", frame.function},
                      {"file", frame.file},
                      {"line", frame.line},
                      {"inlined", frame.inlined}});
  }
  nlohmann::json figures;
  for (const figure_column& each : figure_columns) figures[each.name] = one.figures.*each.member;
  nlohmann::json sizes = nlohmann::json::array();
  for (const size_count& each : one.sizes) {
    sizes.push_back({{"size", each.size}, {"count", each.count}, {"exact", each.exact}});
  }
  nlohmann::json lifetimes = nlohmann::json::array();
  for (const lifetime_count& each : one.lifetimes) {
    lifetimes.push_back({{"log2_ns", each.lifetime},
                         {"log2_bytes", each.size},
                         {"count", each.count},
                         {"bytes", each.bytes}});
  }
  nlohmann::json threads = nlohmann::json::array();
  for (const thread_pair& each : one.threads) {
    threads.push_back({{"from", each.from}, {"to", each.to}, {"count", each.count}, {"bytes", each.bytes}});
  }
  const cost price = cost_of(p, one.figures);
  return {{"frames", frames},
          {"type", one.type},
          {"type_evidence", evidence_name(one.evidence)},
          {"cost_ns",
           {{"malloc", price.malloc_ns},
            {"fault", price.fault_ns},
            {"unmap", price.unmap_ns},
            {"total", price.total()}}},
          {"figures", figures},
          {"sizes", sizes},
          {"lifetimes", lifetimes},
          {"threads", threads}};
}

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') escaped += '\\';
    if (letter == '\n') {
      escaped += "\\n";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

// Prometheus counts in base units.
std::string prometheus_name(const metric& what) {
  switch (what.unit) {
    case metric_unit::nanoseconds:
      return fmt::format("tarn_profile_{}_seconds", what.name);
    case metric_unit::bytes:
      return what.name.find("bytes") == std::string_view::npos
                 ? fmt::format("tarn_profile_{}_bytes", what.name)
                 : fmt::format("tarn_profile_{}", what.name);
    case metric_unit::count:
      break;
  }
  return fmt::format("tarn_profile_{}", what.name);
}

// Rows of one label set must be one: what they have in common is their place in the source.
struct prometheus_row {
  std::string labels;
  std::vector<double> values;  // in the order of metrics()
};

std::vector<prometheus_row> prometheus_rows(const profile& p, std::size_t most) {
  std::map<std::string, std::vector<double>> by_labels;
  for (const metric_row& row : metric_rows(p)) {
    const source_frame frame = row.frames(p).front();
    const std::string labels = fmt::format("function=\"{}\",file=\"{}\",line=\"{}\",type=\"{}\"",
                                           label_value(frame.function), label_value(frame.file), frame.line,
                                           label_value(row.who == nullptr ? "" : row.who->type));
    auto& values = by_labels[labels];
    values.resize(metrics().size());
    for (std::size_t index = 0; index < values.size(); ++index)
      values[index] += metrics()[index].of(p, row.figures);
  }
  std::vector<prometheus_row> rows;
  rows.reserve(by_labels.size());
  for (auto& [labels, values] : by_labels) rows.push_back({labels, std::move(values)});
  std::stable_sort(rows.begin(), rows.end(), [](const prometheus_row& a, const prometheus_row& b) {
    return a.values[0] > b.values[0];
  });
  if (rows.size() > most) {
    prometheus_row rest{"function=\"(all others)\",file=\"\",line=\"0\",type=\"\"",
                        std::vector<double>(metrics().size())};
    for (std::size_t index = most; index < rows.size(); ++index) {
      for (std::size_t each = 0; each < rest.values.size(); ++each)
        rest.values[each] += rows[index].values[each];
    }
    rows.resize(most);
    rows.push_back(std::move(rest));
  }
  return rows;
}

}  // namespace

std::string export_collapsed(const profile& p, const metric& what) {
  std::map<std::string, double> lines;  // sites of one path, and of different types, are one line
  for (const metric_row& row : metric_rows(p)) {
    const double value = what.of(p, row.figures);
    if (value <= 0) continue;
    std::string line;
    const std::vector<source_frame> frames = row.frames(p);
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      if (!line.empty()) line += ';';
      line += collapsed_name(frame->function);
    }
    lines[line] += value;
  }
  std::string text;
  for (const auto& [line, value] : lines) {
    if (std::llround(value) != 0)
      fmt::format_to(std::back_inserter(text), "{} {}\n", line, std::llround(value));
  }
  return text;
}

std::string export_json(const profile& p) {
  nlohmann::json totals;
  for (const metric& each : metrics()) totals[std::string(each.name)] = sum_of(p, each);
  nlohmann::json threads = nlohmann::json::array();
  for (const thread_info& each : p.threads) {
    threads.push_back(
        {{"id", each.id}, {"name", each.name}, {"start_ns", each.start_ns}, {"end_ns", each.end_ns}});
  }
  nlohmann::json modules = nlohmann::json::array();
  for (const module_info& each : p.modules)
    modules.push_back({{"path", each.path}, {"build_id", each.build_id}});
  nlohmann::json sites = nlohmann::json::array();
  for (const site& each : p.sites) sites.push_back(site_json(p, each));
  nlohmann::json counters = nlohmann::json::array();
  for (const counter_row& row : p.counters) {
    nlohmann::json one = {{"time_ns", row.time_ns}};
    for (const counter_column& each : counter_columns) one[each.name] = row.*each.member;
    counters.push_back(std::move(one));
  }
  const nlohmann::json whole = {{"format", "tarn-profile"},
                                {"version", 1},
                                {"meta", p.meta},
                                {"prices_ns",
                                 {{"fault", p.prices.fault},
                                  {"huge_fault", p.prices.huge_fault},
                                  {"costly_fault", p.prices.costly_fault},
                                  {"unmap_page", p.prices.unmap_page},
                                  {"zero_page", p.prices.zero_page},
                                  {"malloc_pair", p.prices.malloc_pair}}},
                                {"totals", totals},
                                {"other_faults", p.other_faults},
                                {"unseen_faults", p.unseen_faults},
                                {"lost_events", p.lost_events},
                                {"unwind_error_rate", p.unwind_error_rate},
                                {"damage", p.damage},
                                {"threads", threads},
                                {"modules", modules},
                                {"sites", sites},
                                {"counters", counters}};
  // Names may be of any bytes.
  return whole.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string export_prometheus(const profile& p, std::size_t most) {
  const std::vector<prometheus_row> rows = prometheus_rows(p, most);
  std::string program;
  if (p.meta.is_object()) {
    const auto found = p.meta.find("program");
    if (found != p.meta.end() && found->is_string()) program = found->get<std::string>();
  }
  std::string text;
  for (std::size_t index = 0; index < metrics().size(); ++index) {
    const metric& what = metrics()[index];
    const std::string name = prometheus_name(what);
    const double unit = what.unit == metric_unit::nanoseconds ? 1e-9 : 1;
    fmt::format_to(std::back_inserter(text), "# HELP {} {}\n# TYPE {} gauge\n", name, what.meaning, name);
    for (const prometheus_row& row : rows) {
      fmt::format_to(std::back_inserter(text), "{}{{program=\"{}\",{}}} {}\n", name, label_value(program),
                     row.labels, row.values[index] * unit);
    }
  }
  return text;
}

}  // namespace tarn::profiler
