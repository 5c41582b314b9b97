// SPDX-License-Identifier: MIT
#include "profiler/export/difference.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "profiler/analyze/function_name.hpp"
#include "profiler/analyze/site_label.hpp"

namespace tarn::profiler {

namespace {

constexpr double least_site_share = 0.01;

void add_figures(difference_builder::column_values& to, const profile& p, const site_figures& figures) {
  for (std::size_t index = 0; index < to.size(); ++index) {
    to[index].value += metrics()[index].of(p, figures);
    to[index].variance += metrics()[index].variance(p, figures);
  }
}

struct unit_name {
  std::string_view text;
  base_unit unit;
  double factor;
};
constexpr unit_name unit_names[] = {
    {"ns", base_unit::ns, 1},
    {"us", base_unit::ns, 1e3},
    {"ms", base_unit::ns, 1e6},
    {"s", base_unit::ns, 1e9},
    {"", base_unit::count, 1},
    {"", base_unit::bytes, 1},
    {"K", base_unit::bytes, 1024},
    {"M", base_unit::bytes, 1024.0 * 1024},
    {"G", base_unit::bytes, 1073741824.0},
    {"k", base_unit::count, 1e3},
    {"M", base_unit::count, 1e6},
};

double factor_of(std::string_view unit, const metric& what, std::string_view text) {
  for (const unit_name& each : unit_names) {
    if (each.text == unit && each.unit == what.unit) return each.factor;
  }
  const char* accepted = what.unit == base_unit::ns      ? "ns, us, ms or s"
                         : what.unit == base_unit::bytes ? "none, K, M or G"
                                                         : "none, k or M";
  throw std::invalid_argument(
      fmt::format("'{}': the unit of {} is {}, or % for a share of what it was", text, what.name, accepted));
}

constexpr std::size_t most_callers = 3;

std::string callers_in(const std::vector<source_frame>& frames) {
  std::string text;
  std::size_t count = 0;
  for (std::size_t at = own_frame(frames) + 1; at < frames.size() && count < most_callers; ++at) {
    if (frames[at].kind == frame_kind::interpreter) continue;
    const bool is_plain = frames[at].function.starts_with("??") || frames[at].kind == frame_kind::script;
    text += (count++ == 0 ? "" : " < ") + (is_plain ? frames[at].function : short_name(frames[at].function));
  }
  return text;
}

std::string share_text(const change& value) {
  if (std::isinf(value.share())) return "is new";
  const std::string share = fmt::format("changed by {:+.1f}", 100 * value.share());
  if (value.margin <= 0 || value.before <= 0) return share + " %";
  return share + " " + value.margin_text();
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

std::string change::margin_text() const {
  if (before <= 0) return "";
  if (margin <= 0) return "exact";
  const double percent = 100 * margin / before;
  return percent >= 99.95 ? "± >100 %" : fmt::format("± {:.1f} %", percent);
}

difference difference::between(const profile& before, const profile& after) {
  difference_builder builder(1, 1);
  builder.add_times(difference_builder::side::before, before);
  builder.add_times(difference_builder::side::after, after);
  profile first = before, second = after;
  builder.add(difference_builder::side::before, first);
  builder.add(difference_builder::side::after, second);
  return builder.take();
}

difference_builder::difference_builder(std::size_t before, std::size_t after) : recordings_{before, after} {}

void difference_builder::add_values(std::array<change, metric_count>& to, squares* squared, side which,
                                    const column_values& values) const {
  const auto count = static_cast<double>(recordings_[static_cast<std::size_t>(which)]);
  for (std::size_t index = 0; index < values.size(); ++index) {
    (which == side::before ? to[index].before : to[index].after) += values[index].value;
    to[index].margin += values[index].variance / (count * count);
    if (squared != nullptr) (*squared)[index] += values[index].value * values[index].value;
  }
}

std::uint32_t difference_builder::row_of(const path_identity& identity, const metric_row& row,
                                         const profile& p) {
  const auto at = std::lower_bound(
      known_.begin(), known_.end(), identity,
      [](const known_site& one, const path_identity& wanted) { return one.identity < wanted; });
  if (at != known_.end() && at->identity == identity) return at->row;
  const auto next = static_cast<std::uint32_t>(changes_.sites.size());
  new_.push_back({identity, next});
  const std::vector<source_frame> frames = row.frames(p);
  const source_frame where = label_of(frames);
  const auto [place, is_new_place] =
      place_rows_.try_emplace(key_of(p, where), static_cast<std::uint32_t>(changes_.places.size()));
  if (is_new_place) changes_.places.push_back(where);
  const auto [type, is_new_type] = type_rows_.try_emplace(row.who == nullptr ? std::string() : row.who->type,
                                                          static_cast<std::uint32_t>(changes_.types.size()));
  if (is_new_type) changes_.types.push_back(type->first);
  const auto [callers, are_new_callers] =
      caller_rows_.try_emplace(callers_in(frames), static_cast<std::uint32_t>(changes_.callers.size()));
  if (are_new_callers) changes_.callers.push_back(callers->first);
  changes_.sites.push_back({place->second, type->second, callers->second, {}});
  if (knows_scatter()) site_squares_.push_back({});
  return next;
}

namespace {

struct identified_row {
  path_identity identity;
  std::uint32_t row = 0;
};

std::vector<path_identity> site_identities(const profile& p, name_numbers& names) {
  const std::vector<path_identity> paths = identities_of(p, names);
  std::vector<path_identity> identities;
  identities.reserve(p.sites.size());
  for (const site& each : p.sites) {
    const path_identity path = each.stack != 0 ? paths[each.stack] : extend({}, names.of("[no call path]"));
    identities.push_back(extend(path, names.of("type " + each.type)));
  }
  return identities;
}

bool is_counted(const site_figures& figures) { return figures.allocations > 0 && has_small_calls(figures); }

// The rows of one site lie next to each other.
std::vector<identified_row> rows_by_identity(const profile& p, const std::vector<metric_row>& rows,
                                             name_numbers& names) {
  std::vector<identified_row> identified;
  identified.reserve(rows.size());
  // The sites' rows come first.
  for (const path_identity& one : site_identities(p, names))
    identified.push_back({one, static_cast<std::uint32_t>(identified.size())});
  for (std::size_t index = identified.size(); index < rows.size(); ++index) {
    const path_identity path = extend({}, names.of(rows[index].label()));
    identified.push_back({extend(path, names.of("type ")), static_cast<std::uint32_t>(index)});
  }
  std::sort(identified.begin(), identified.end(),
            [](const identified_row& left, const identified_row& right) {
              return std::tie(left.identity, left.row) < std::tie(right.identity, right.row);
            });
  return identified;
}

}  // namespace

void difference_builder::add_times(side which, const profile& p) {
  calibration_.add(static_cast<std::size_t>(which), p.malloc_time);
  if (p.mode != profile_mode::sample || p.malloc_time.factor <= 0 || !knows_scatter()) return;
  std::vector<timed_place> places;
  const std::vector<path_identity> paths = site_identities(p, names_);
  for (std::size_t index = 0; index < p.sites.size(); ++index) {
    const site_figures& figures = p.sites[index].figures;
    if (is_counted(figures))
      places.push_back({paths[index], figures.allocations, figures.malloc_ns / p.malloc_time.factor});
  }
  call_prices_.add(static_cast<std::size_t>(which), places);
  const double found = sum_with_variances(p).malloc_ns;
  found_ns_ += found;
  fitted_ns_ += p.fit.malloc * found;
}

double difference_builder::use_common_prices(profile& p) {
  if (p.mode != profile_mode::sample || !has_one_price()) return -1;
  const std::vector<path_identity> paths = site_identities(p, names_);
  double own = 0, common = 0, variance = 0;
  for (std::size_t index = 0; index < p.sites.size(); ++index) {
    const site_figures& figures = p.sites[index].figures;
    if (!is_counted(figures)) continue;
    const double price = p.malloc_time.factor * call_prices_.of(paths[index]);
    own += figures.malloc_ns;
    common += price * figures.allocations;
    variance += price * price * figures.allocations_variance;
  }
  if (own <= 0) return -1;
  for (site& each : p.sites) {
    if (is_counted(each.figures)) each.figures.malloc_ns *= common / own;
  }
  // Each recording's own would make its processor time a price of its own.
  p.fit.malloc = fitted_ns_ / found_ns_;
  return variance;
}

void difference_builder::add(side which, profile& p) {
  if (!std::exchange(has_prices_, true)) prices_ = p.prices;
  p.prices = prices_;
  calibration_.apply(static_cast<std::size_t>(which), p);
  fit_costs(p);
  const double common_variance = use_common_prices(p);
  // The total number of faults is known exactly if some are left for outside of sites (cost_of_all).
  const bool are_faults_known = p.other_faults + p.unseen_faults > 0;
  std::vector<metric_row> rows = metric_rows(p);
  std::vector<identified_row> identified = rows_by_identity(p, rows, names_);
  column_values total;
  for (std::size_t first = 0; first < identified.size();) {
    // Several rows of a recording may be one site here: their sum is squared, not each row.
    const path_identity& identity = identified[first].identity;
    const std::uint32_t site = row_of(identity, rows[identified[first].row], p);
    column_values values;
    for (; first < identified.size() && identified[first].identity == identity; ++first) {
      site_figures figures = rows[identified[first].row].figures(p);
      add_figures(values, p, figures);
      if (are_faults_known) figures.faults_variance = 0;
      add_figures(total, p, figures);
    }
    add_values(changes_.sites[site].values, knows_scatter() ? &site_squares_[site] : nullptr, which, values);
  }
  // The errors of the sites' times are not independent, and what no sample knows of is there once.
  site_figures sum = sum_with_variances(p);
  if (common_variance >= 0) sum.malloc_variance = common_variance;
  for (std::size_t index = 0; index < total.size(); ++index)
    total[index].variance = metrics()[index].variance(p, sum);
  add_values(changes_.totals, &total_squares_, which, total);
  std::vector<metric_row>().swap(rows);  // merging needs memory
  std::vector<identified_row>().swap(identified);
  const auto middle = static_cast<std::ptrdiff_t>(known_.size());
  known_.insert(known_.end(), new_.begin(), new_.end());
  std::vector<known_site>().swap(new_);  // `= {}` would keep the memory
  std::inplace_merge(
      known_.begin(), known_.begin() + middle, known_.end(),
      [](const known_site& left, const known_site& right) { return left.identity < right.identity; });
}

double difference_builder::finish(change& of, const squares* squared, std::size_t metric_index,
                                  double run_bound, double sample_bound) const {
  const auto count_before = static_cast<double>(recordings_[0]),
             count_after = static_cast<double>(recordings_[1]);
  const change sums = of;
  of.before = sums.before / count_before;
  of.after = sums.after / count_after;
  double sampling = sums.margin;
  double between_runs = 0;
  if (knows_scatter()) {
    const double square = (*squared)[metric_index];
    const double scatter = square - sums.before * of.before - sums.after * of.after;
    // A rounding error of equal values is no scatter.
    if (scatter > 1e-12 * square)
      between_runs = scatter / (count_before + count_after - 2) * (1 / count_before + 1 / count_after);
  } else if (metrics()[metric_index].unit == base_unit::ns) {
    sampling += usual_spread_of_time * usual_spread_of_time * (of.before * of.before + of.after * of.after);
  }
  of.margin = std::max(run_bound * std::sqrt(between_runs), sample_bound * std::sqrt(sampling));
  return std::sqrt(std::max(between_runs, sampling) / (1 / count_before + 1 / count_after));
}

std::size_t difference_builder::sites_that_count(std::size_t metric_index) const {
  const change& total = changes_.totals[metric_index];
  return static_cast<std::size_t>(
      std::count_if(changes_.sites.begin(), changes_.sites.end(), [&](const site_change& one) {
        const change& value = one.values[metric_index];
        return (value.before > 0 && value.before >= least_site_share * total.before) ||
               (value.after > 0 && value.after >= least_site_share * total.after);
      }));
}

difference difference_builder::take() {
  std::vector<known_site>().swap(known_);
  changes_.recordings_before = recordings_[0];
  changes_.recordings_after = recordings_[1];
  const std::size_t degrees = std::max<std::size_t>(1, recordings_[0] + recordings_[1] - 2);
  for (std::size_t index = 0; index < metric_count; ++index) {
    const auto counting = static_cast<double>(std::max<std::size_t>(1, sites_that_count(index)));
    const double confidence = 1 - (1 - difference_confidence) / counting;
    const double run_bound = student_bound(degrees, confidence), sample_bound = normal_bound(confidence);
    for (std::size_t site = 0; site < changes_.sites.size(); ++site) {
      finish(changes_.sites[site].values[index], knows_scatter() ? &site_squares_[site] : nullptr, index,
             run_bound, sample_bound);
    }
    change& total = changes_.totals[index];
    const double error = finish(total, &total_squares_, index, student_bound(degrees, difference_confidence),
                                normal_bound(difference_confidence));
    changes_.recordings_needed[index] = recordings_to_find(small_change * total.before, error);
  }
  take_call_price();
  difference taken = std::move(changes_);
  *this = difference_builder(recordings_[0], recordings_[1]);
  return taken;
}

void difference_builder::take_call_price() {
  changes_.has_one_price = has_one_price();
  if (!call_prices_.is_known()) return;
  const call_prices::comparison price = call_prices_.price();
  const auto before = static_cast<double>(recordings_[0]), after = static_cast<double>(recordings_[1]);
  const double bound = student_bound(recordings_[0] + recordings_[1] - 2, price_confidence);
  changes_.call_price = {price.before, price.after,
                         bound * price.error * price.before * std::sqrt(1 / before + 1 / after)};
  changes_.recordings_needed_for_price = recordings_to_find(small_change, price.error, price_confidence);
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
                                    changes.place_of(one).function, share_text(value)));
  }
  return sentences;
}

}  // namespace tarn::profiler
