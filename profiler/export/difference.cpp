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
#include <unordered_map>
#include <utility>

#include "profiler/analyze/site_label.hpp"
#include "profiler/export/significance.hpp"

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

void add_figures(std::vector<difference_builder::one_value>& to, const profile& p,
                 const site_figures& figures) {
  for (std::size_t index = 0; index < to.size(); ++index) {
    to[index].value += metrics()[index].of(p, figures);
    to[index].variance += metrics()[index].variance(p, figures);
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

std::string share_text(const change& value) {
  if (std::isinf(value.share())) return "is new";
  const std::string share = fmt::format("changed by {:+.1f}", 100 * value.share());
  if (value.margin <= 0 || value.before <= 0) return share + " %";
  return fmt::format("{} ± {:.1f} %", share, 100 * value.margin / value.before);
}

bool is_beyond(const change& value, const change_limit& limit) {
  const auto beyond = [&limit](double got) {
    return limit.is_upper ? got > limit.amount : got < limit.amount;
  };
  return beyond(limit.is_share ? value.share() : value.amount()) && (beyond(0) || value.is_significant());
}

}  // namespace

double change::share() const noexcept {
  if (before > 0) return (after - before) / before;
  return after > 0 ? std::numeric_limits<double>::infinity() : 0;
}

difference difference::between(const profile& before, const profile& after) {
  difference_builder builder;
  profile first = before, second = after;
  builder.add(difference_builder::side::before, first);
  builder.add(difference_builder::side::after, second);
  return builder.take();
}

void difference_builder::add(std::vector<sums>& to, side which, const column_values& values) {
  for (std::size_t index = 0; index < values.size(); ++index) {
    (which == side::before ? to[index].before : to[index].after) += values[index].value;
    (which == side::before ? to[index].variance_before : to[index].variance_after) += values[index].variance;
    to[index].squares += values[index].value * values[index].value;
  }
}

void difference_builder::add(side which, profile& p) {
  if (recordings_[0] + recordings_[1] == 0) prices_ = p.prices;
  ++recordings_[static_cast<std::size_t>(which)];
  p.prices = prices_;
  fit_costs(p);
  // How many faults there were in all is known where some are left for others (cost_of_all).
  const bool are_faults_known = p.other_faults + p.unseen_faults > 0;
  // Several rows of a recording may be one site here: their sum is what has a square.
  std::unordered_map<site_sums*, column_values> values;
  column_values total(metrics().size());
  for (const metric_row& row : metric_rows(p)) {
    const std::vector<source_frame> frames = row.frames(p);
    site_sums& site = sites_[identity_of(row, frames)];
    if (site.values.empty()) {
      site.values.resize(metrics().size());
      site.where = frames[own_frame(frames)];
      if (row.who != nullptr) site.type = row.who->type;
    }
    site_figures figures = row.figures();
    add_figures(values.try_emplace(&site, metrics().size()).first->second, p, figures);
    if (are_faults_known) figures.faults_variance = 0;
    add_figures(total, p, figures);
  }
  for (const auto& [site, columns] : values) add(site->values, which, columns);
  totals_.resize(metrics().size());
  add(totals_, which, total);
}

change difference_builder::change_of(const sums& of, bool is_time, double run_bound,
                                     double sample_bound) const {
  const auto count_before = static_cast<double>(recordings_[0]),
             count_after = static_cast<double>(recordings_[1]);
  change result;
  result.before = of.before / count_before;
  result.after = of.after / count_after;
  double sampling =
      of.variance_before / (count_before * count_before) + of.variance_after / (count_after * count_after);
  const double degrees = count_before + count_after - 2;
  double between_runs = 0;
  if (degrees > 0) {
    const double scatter = of.squares - of.before * result.before - of.after * result.after;
    // What rounding leaves of equal values is no scatter.
    if (scatter > 1e-12 * of.squares) between_runs = scatter / degrees * (1 / count_before + 1 / count_after);
  } else if (is_time) {
    sampling += usual_spread_of_time * usual_spread_of_time *
                (result.before * result.before + result.after * result.after);
  }
  result.margin = std::max(run_bound * std::sqrt(between_runs), sample_bound * std::sqrt(sampling));
  return result;
}

std::size_t difference_builder::sites_that_count(std::size_t metric_index) const {
  const sums& total = totals_[metric_index];
  return static_cast<std::size_t>(std::count_if(sites_.begin(), sites_.end(), [&](const auto& one) {
    const sums& value = one.second.values[metric_index];
    return (value.before > 0 && value.before >= least_site_share * total.before) ||
           (value.after > 0 && value.after >= least_site_share * total.after);
  }));
}

difference difference_builder::take() {
  difference result;
  result.recordings_before = recordings_[0];
  result.recordings_after = recordings_[1];
  result.sites.resize(sites_.size());
  const std::size_t degrees = std::max<std::size_t>(1, recordings_[0] + recordings_[1] - 2);
  for (std::size_t index = 0; index < totals_.size(); ++index) {
    const bool is_time = metrics()[index].unit == metric_unit::nanoseconds;
    result.totals.push_back(change_of(totals_[index], is_time, student_bound(degrees, difference_confidence),
                                      normal_bound(difference_confidence)));
    const auto counting = static_cast<double>(std::max<std::size_t>(1, sites_that_count(index)));
    const double confidence = 1 - (1 - difference_confidence) / counting;
    const double run_bound = student_bound(degrees, confidence), sample_bound = normal_bound(confidence);
    auto one = result.sites.begin();
    for (const auto& [key, site] : sites_) {
      (one++)->values.push_back(change_of(site.values[index], is_time, run_bound, sample_bound));
    }
  }
  auto one = result.sites.begin();
  for (auto& [key, site] : sites_) {
    one->where = std::move(site.where);
    (one++)->type = std::move(site.type);
  }
  *this = {};
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
      sentences.push_back(
          fmt::format("{}: {} {}", limit.text, metrics()[limit.metric_index].name, share_text(total)));
    }
    return sentences;
  }
  for (const site_change& one : changes.sites) {
    const change& value = one.values[limit.metric_index];
    const bool counts =
        value.before >= least_site_share * total.before || value.after >= least_site_share * total.after;
    if (!counts || (value.before <= 0 && value.after <= 0) || !is_beyond(value, limit)) continue;
    sentences.push_back(fmt::format("{}: {} of {} {}", limit.text, metrics()[limit.metric_index].name,
                                    one.where.function, share_text(value)));
  }
  return sentences;
}

}  // namespace tarn::profiler
