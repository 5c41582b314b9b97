// SPDX-License-Identifier: MIT
#include "profiler/export/difference.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>

#include "profiler/analyze/site_label.hpp"

namespace tarn::profiler {

namespace {

constexpr double least_site_share = 0.01;

// A function without a symbol is known by its place in the module, which is another one after a change of the module.
std::string identity_of(const metric_row& row, const std::vector<source_frame>& frames) {
  std::string key;
  for (const source_frame& frame : frames) {
    key += frame.function;
    key += '\n';
  }
  return key + (row.who == nullptr ? std::string() : row.who->type);
}

void add_rows(const profile& p, double change::*side, std::map<std::string, site_change>& sites,
              std::vector<change>& totals) {
  for (const metric_row& row : metric_rows(p)) {
    const std::vector<source_frame> frames = row.frames(p);
    site_change& one = sites[identity_of(row, frames)];
    if (one.values.empty()) {
      one.values.resize(metrics().size());
      one.where = frames[own_frame(frames)];
      if (row.who != nullptr) one.type = row.who->type;
    }
    for (std::size_t index = 0; index < metrics().size(); ++index) {
      const double value = metrics()[index].of(p, row.figures());
      one.values[index].*side += value;
      totals[index].*side += value;
    }
  }
}

struct unit_name {
  std::string_view text;
  metric_unit unit;
  double factor;
};
constexpr unit_name unit_names[] = {
    {"ns", metric_unit::nanoseconds, 1},
    {"us", metric_unit::nanoseconds, 1e3},
    {"ms", metric_unit::nanoseconds, 1e6},
    {"s", metric_unit::nanoseconds, 1e9},
    {"", metric_unit::count, 1},
    {"", metric_unit::bytes, 1},
    {"K", metric_unit::bytes, 1024},
    {"M", metric_unit::bytes, 1024.0 * 1024},
    {"G", metric_unit::bytes, 1073741824.0},
    {"k", metric_unit::count, 1e3},
    {"M", metric_unit::count, 1e6},
};

double factor_of(std::string_view unit, const metric& what, std::string_view text) {
  for (const unit_name& each : unit_names) {
    if (each.text == unit && each.unit == what.unit) return each.factor;
  }
  const char* accepted = what.unit == metric_unit::nanoseconds ? "ns, us, ms or s"
                         : what.unit == metric_unit::bytes     ? "none, K, M or G"
                                                               : "none, k or M";
  throw std::invalid_argument(
      fmt::format("'{}': the unit of {} is {}, or % for a share of what it was", text, what.name, accepted));
}

std::string share_text(double share) {
  return std::isinf(share) ? "is new" : fmt::format("changed by {:+.1f} %", 100 * share);
}

bool is_beyond(const change& value, const change_limit& limit) {
  const double got = limit.is_share ? value.share() : value.amount();
  return limit.is_upper ? got > limit.amount : got < limit.amount;
}

}  // namespace

double change::share() const noexcept {
  if (before > 0) return (after - before) / before;
  return after > 0 ? std::numeric_limits<double>::infinity() : 0;
}

difference difference::between(const profile& before, const profile& after) {
  difference result;
  result.totals.resize(metrics().size());
  std::map<std::string, site_change> sites;
  add_rows(before, &change::before, sites, result.totals);
  add_rows(after, &change::after, sites, result.totals);
  result.sites.reserve(sites.size());
  for (auto& [key, one] : sites) result.sites.push_back(std::move(one));
  return result;
}

change_limit change_limit::parse(std::string_view text) {
  change_limit limit;
  std::string compact;
  std::copy_if(text.begin(), text.end(), std::back_inserter(compact),
               [](char letter) { return letter != ' '; });
  limit.text = compact;
  const std::size_t comparison = compact.find_first_of("<>");
  if (comparison == std::string::npos) {
    throw std::invalid_argument(fmt::format("'{}' is no limit: it needs > or <, as in cost>+5%", text));
  }
  limit.is_upper = compact[comparison] == '>';
  std::string name = compact.substr(0, comparison);
  if (name.starts_with("site.")) {
    limit.of_each_site = true;
    name.erase(0, 5);
  }
  const metric* what = find_metric(name);
  if (what == nullptr) {
    throw std::invalid_argument(
        fmt::format("'{}': there is no metric '{}'; there are {}", text, name, metric_names()));
  }
  limit.metric_index = static_cast<std::size_t>(what - metrics().data());
  std::string_view amount = std::string_view(compact).substr(comparison + 1);
  if (amount.starts_with('+')) amount.remove_prefix(1);
  const auto [end, error] = std::from_chars(amount.data(), amount.data() + amount.size(), limit.amount);
  if (error != std::errc() || !std::isfinite(limit.amount)) {
    throw std::invalid_argument(fmt::format("'{}': no number follows the {}", text, compact[comparison]));
  }
  const std::string_view unit = amount.substr(static_cast<std::size_t>(end - amount.data()));
  limit.is_share = unit == "%";
  limit.amount *= limit.is_share ? 0.01 : factor_of(unit, *what, text);
  return limit;
}

std::vector<std::string> exceeded(const difference& changes, const change_limit& limit) {
  const change& total = changes.totals[limit.metric_index];
  std::vector<std::string> sentences;
  if (!limit.of_each_site) {
    if (is_beyond(total, limit)) {
      sentences.push_back(fmt::format("{}: {} {}", limit.text, metrics()[limit.metric_index].name,
                                      share_text(total.share())));
    }
    return sentences;
  }
  for (const site_change& one : changes.sites) {
    const change& value = one.values[limit.metric_index];
    const bool counts =
        value.before >= least_site_share * total.before || value.after >= least_site_share * total.after;
    if (!counts || (value.before <= 0 && value.after <= 0) || !is_beyond(value, limit)) continue;
    sentences.push_back(fmt::format("{}: {} of {} {}", limit.text, metrics()[limit.metric_index].name,
                                    one.where.function, share_text(value.share())));
  }
  return sentences;
}

}  // namespace tarn::profiler
