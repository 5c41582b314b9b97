// SPDX-License-Identifier: MIT
#include "cli/show/live_view.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/site_group.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/figure_columns.hpp"

namespace tarn::cli {

using profiler::profile;
using profiler::say_count;

namespace {

double seen_duration_of(const profile& p) {
  if (p.meta.is_object() && p.meta.contains("duration_ns")) return p.meta["duration_ns"].get<double>();
  return p.counters.empty() ? 0 : static_cast<double>(p.counters.back().time_ns);
}

double per_second(double before, double after, double seconds) {
  return std::max(0.0, after - before) / seconds;
}

double seconds_between(const profile& before, const profile& after) {
  return std::max(1e-3, (seen_duration_of(after) - seen_duration_of(before)) * 1e-9);
}

// By live_order.
double figure_of(const live_place& place, live_order order) {
  constexpr double live_place::*ordered_by[] = {&live_place::cost_share, &live_place::hidden_share,
                                                &live_place::faults,     &live_place::allocations,
                                                &live_place::bytes,      &live_place::live_bytes};
  return order == live_order::growth ? place.growth.value_or(0)
                                     : place.*ordered_by[static_cast<std::size_t>(order)];
}

// 0 where the view shows nothing of it: places that are idle by it are in the order of their live memory.
double seen_figure_of(const live_place& place, live_order order) {
  constexpr double least_share = 1e-3;
  constexpr double least_bytes = 0.05 * (1 << 20);
  constexpr double least[] = {least_share, least_share, 1, 1, least_bytes, 0, least_bytes};
  const double figure = figure_of(place, order);
  return std::abs(figure) < least[static_cast<std::size_t>(order)] ? 0 : figure;
}

constexpr bool is_state(double profiler::site_figures::*figure) {
  return figure == &profiler::site_figures::live || figure == &profiler::site_figures::live_bytes ||
         figure == &profiler::site_figures::peak_bytes;
}

// `after`, whose totals count only what happened since `before`.
profile difference_of(const profile& before, const profile& after) {
  profile result = after;
  for (std::size_t index = 0; index < std::min(before.sites.size(), result.sites.size()); ++index) {
    for (const profiler::figure_column& each : profiler::figure_columns) {
      double& value = result.sites[index].figures.*each.member;
      if (!is_state(each.member)) value = std::max(0.0, value - before.sites[index].figures.*each.member);
    }
  }
  return result;
}

growth_log::sizes live_bytes_of(const profile& p) {
  growth_log::sizes all;
  for (std::size_t site = 0; site < p.sites.size(); ++site) all[site] = p.sites[site].figures.live_bytes;
  return all;
}

double seen_seconds_of(const profile& p) { return 1e-9 * seen_duration_of(p); }
double resident_in(const profile& p) { return p.counters.empty() ? 0 : p.counters.back().resident_bytes; }

}  // namespace

void live_growth::add(const profile& p) {
  sites.add(seen_seconds_of(p), live_bytes_of(p));
  resident.add(seen_seconds_of(p), {{0, resident_in(p)}});
}

bool live_place::is_busy() const {
  const auto seen = [](const std::string& figure) {
    return figure != "0" && figure != "<0.1" && figure != "-";
  };
  return seen(show_percent(cost_share)) || faults >= 1 || allocations >= 1 || seen(show_mib(live_bytes)) ||
         seen(show_growth(growth));
}

live_rates rates_between(const profile& before, const profile& after, const live_growth& growth) {
  live_rates rates;
  const double seconds = seconds_between(before, after);
  const profiler::cost first = cost_of_all(before);
  const profiler::cost last = cost_of_all(after);
  rates.malloc_share = per_second(first.malloc_ns, last.malloc_ns, seconds) * 1e-9;
  rates.hidden_share = per_second(first.hidden(), last.hidden(), seconds) * 1e-9;
  double allocations = 0;
  for (const profiler::site& one : after.sites) {
    allocations += one.figures.allocations;
    rates.live_bytes += one.figures.live_bytes;
    if (one.figures.checked_bytes > 0) {
      rates.untouched_bytes +=
          one.figures.live_bytes *
          std::clamp(1 - one.figures.resident_bytes / one.figures.checked_bytes, 0.0, 1.0);
    }
  }
  double earlier = 0;
  for (const profiler::site& one : before.sites) earlier += one.figures.allocations;
  rates.allocations = per_second(earlier, allocations, seconds);
  rates.live_growth = growth.sites.per_minute(seen_seconds_of(after), live_bytes_of(after));
  rates.resident_growth = growth.resident.per_minute(seen_seconds_of(after), 0, resident_in(after));
  rates.resident_bytes = resident_in(after);
  if (!after.counters.empty()) {
    const profiler::counter_row none;
    const profiler::counter_row& then = before.counters.empty() ? none : before.counters.back();
    const profiler::counter_row& now = after.counters.back();
    const double passed =
        std::max(1e-3, (static_cast<double>(now.time_ns) - static_cast<double>(then.time_ns)) * 1e-9);
    rates.faults = per_second(then.faults, now.faults, passed);
    rates.cpu_share = per_second(then.user_ns + then.system_ns, now.user_ns + now.system_ns, passed) * 1e-9;
  }
  return rates;
}

std::vector<live_place> places_between(const profile& before, const profile& after, live_order order,
                                       const live_growth& growth) {
  std::map<std::uint32_t, std::string> suggestions;
  for (const profiler::advice& one : profiler::advise(after)) {
    if (one.kind == profiler::advice_kind::leave_it || one.kind == profiler::advice_kind::allocator) continue;
    for (const std::uint32_t site : one.sites) suggestions.try_emplace(site, kind_name(one.kind));
  }
  const profile difference = difference_of(before, after);
  const double seconds = seconds_between(before, after);
  std::vector<live_place> places;
  for (const profiler::site_group& group : group_sites(difference)) {
    live_place place;
    place.frame = group.place;
    place.type = group.type;
    const auto suggestion = suggestions.find(group.sites.front());
    if (suggestion != suggestions.end()) place.suggestion = suggestion->second;
    place.cost_share = group.charged.total() / seconds * 1e-9;
    place.hidden_share = group.charged.hidden() / seconds * 1e-9;
    place.faults = group.sum.faults / seconds;
    place.allocations = group.sum.allocations / seconds;
    place.bytes = group.sum.bytes / seconds;
    place.live_bytes = group.sum.live_bytes;
    for (const std::uint32_t site : group.sites) {
      const auto more =
          growth.sites.per_minute(seen_seconds_of(after), site, after.sites[site].figures.live_bytes);
      if (more) place.growth = place.growth.value_or(0) + *more;
    }
    places.push_back(std::move(place));
  }
  std::stable_sort(places.begin(), places.end(), [order](const live_place& a, const live_place& b) {
    const std::pair keys{seen_figure_of(a, order), seen_figure_of(b, order)};
    return keys.first != keys.second ? keys.first > keys.second : a.live_bytes > b.live_bytes;
  });
  return places;
}

namespace {

// As many of the parts, side by side, as fit into `width`.
std::string fitting(const std::vector<std::string>& parts, std::size_t width) {
  std::string text;
  for (const std::string& part : parts) {
    const std::string longer = text.empty() ? part : text + "   " + part;
    if (!text.empty() && display_width(longer) > width) break;
    text = longer;
  }
  return cut_to_width(text, width);
}

struct live_column {
  const char* heading;
  std::string (*show)(const live_place& place);
};

constexpr std::size_t narrowest_name = 38;
constexpr std::size_t widest_name = 72;  // wider, figures would stand far from the names
constexpr std::size_t suggestion_width = 15;
// By live_order.
constexpr live_column live_columns[] = {
    {"cost %", [](const live_place& p) { return show_percent(p.cost_share); }},
    {"hidden %", [](const live_place& p) { return show_percent(p.hidden_share); }},
    {"faults/s", [](const live_place& p) { return say_count(p.faults); }},
    {"allocs/s", [](const live_place& p) { return say_count(p.allocations); }},
    {"MiB/s", [](const live_place& p) { return show_mib(p.bytes); }},
    {"live MiB", [](const live_place& p) { return show_mib(p.live_bytes); }},
    {"MiB/min", [](const live_place& p) { return show_growth(p.growth); }},
};

// The one that is sorted by first; then what says most.
std::vector<std::size_t> by_priority(live_order order) {
  std::vector<std::size_t> columns = {0, 5, 6, 3, 2, 1, 4};
  const auto first = std::find(columns.begin(), columns.end(), static_cast<std::size_t>(order));
  std::rotate(columns.begin(), first, first + 1);
  return columns;
}

}  // namespace

std::string render_rates(const live_rates& rates, std::size_t width, bool colour) {
  const auto mib = [](const char* name, double bytes, std::optional<double> growth) {
    return fmt::format("{} {} MiB{}", name, show_mib(bytes),
                       growth ? ", " + show_growth(growth) + "/min" : "");
  };
  const std::string cost = fitting({fmt::format("CPU {} % of a processor", show_percent(rates.cpu_share)),
                                    fmt::format("cost of memory {} %", show_percent(rates.cost_share())),
                                    fmt::format("malloc {} %", show_percent(rates.malloc_share)),
                                    fmt::format("hidden {} %", show_percent(rates.hidden_share))},
                                   width);
  const std::string memory = fitting(
      {mib("resident", rates.resident_bytes, rates.resident_growth),
       mib("live", rates.live_bytes, rates.live_growth),
       fmt::format("{} allocs/s", say_count(rates.allocations)),
       fmt::format("{} faults/s", say_count(rates.faults)), mib("untouched", rates.untouched_bytes, {})},
      width);
  return paint(cost, style::bold, colour) + "\n" + memory + "\n";
}

namespace {

std::string name_of(const live_place& place, std::size_t width) {
  const std::string name = show_frame(place.frame, width);
  const std::string typed = place.type.empty() ? name : name + "  " + place.type;
  return width == 0 || display_width(typed) <= width ? typed : cut_in_middle(name, width);
}

}  // namespace

std::string render_places(const std::vector<live_place>& places, std::size_t most, live_order order,
                          std::size_t width, bool colour) {
  std::vector<std::string> headings;
  for (const live_column& each : live_columns)
    headings.push_back(pad_left(
        fmt::format("{}{}", headings.size() == static_cast<std::size_t>(order) ? "*" : "", each.heading), 8));
  text_table table(std::move(headings));
  std::vector<const live_place*> shown;
  for (const live_place& place : places) {
    if (place.is_busy() && shown.size() < most) shown.push_back(&place);
  }
  if (shown.size() == most && places.size() > most) shown.pop_back();  // for the last line
  for (const live_place* place : shown) {
    std::vector<std::string> cells;
    for (const live_column& each : live_columns) cells.push_back(each.show(*place));
    table.add(cells);
  }
  table.fit(width - std::min(width - 1, narrowest_name), by_priority(order));
  const bool suggests = width >= table.width() + narrowest_name + suggestion_width;
  const std::size_t used = table.width() + (suggests ? suggestion_width : 0);
  const std::size_t name_width = std::min(widest_name, width - std::min(width - 1, used));
  std::string text = paint(pad_right("where", name_width), style::bold, colour) +
                     table.heading(colour, suggests ? "suggested" : "") + "\n";
  for (std::size_t index = 0; index < shown.size(); ++index) {
    text += pad_right(name_of(*shown[index], name_width - 1), name_width) +
            table.row(index, colour, suggests ? paint(shown[index]->suggestion, style::good, colour) : "") +
            "\n";
  }
  if (const std::size_t rest = places.size() - shown.size(); rest > 0)
    text += paint(fmt::format("and {} more", rest), style::faint, colour) + "\n";
  return text;
}

namespace {

constexpr std::size_t row_width = 77;
constexpr std::size_t narrowest_row_name = 20;

bool has_room_for_name(std::size_t width) { return width == 0 || width >= row_width + narrowest_row_name; }

std::string row_of(const std::array<std::string, 8>& cells) {
  std::string text;
  for (std::size_t column = 0; column < cells.size(); ++column)
    text += pad_left(cells[column], column == 0 ? 7 : 10);
  return text;
}

}  // namespace

std::string live_row_heading(std::size_t width) {
  return row_of({"seconds", "cost %", "hidden %", "faults/s", "allocs/s", "RSS MiB", "live MiB", "MiB/min"}) +
         (has_room_for_name(width) ? "  most expensive site" : "");
}

std::string live_row(double at_seconds, const live_rates& rates, const std::vector<live_place>& places,
                     std::size_t width) {
  std::string text =
      row_of({fmt::format("{:.1f}", at_seconds), show_percent(rates.cost_share()),
              show_percent(rates.hidden_share), say_count(rates.faults), say_count(rates.allocations),
              show_mib(rates.resident_bytes), show_mib(rates.live_bytes), show_growth(rates.live_growth)});
  if (!has_room_for_name(width) || places.empty() || places.front().cost_share <= 0) return text;
  text += "  " + name_of(places.front(), width == 0 ? 60 : width - row_width - 2);
  return text;
}

namespace {

nlohmann::json json_of(std::optional<double> value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

nlohmann::json as_json(double at_seconds, const live_rates& rates, const std::vector<live_place>& places) {
  nlohmann::json list = nlohmann::json::array();
  for (const live_place& place : places) {
    if (list.size() == 20) break;
    list.push_back({{"name", show_frame(place.frame, 0)},
                    {"place", say_place(place.frame)},
                    {"type", place.type},
                    {"suggestion", place.suggestion},
                    {"cost_share", place.cost_share},
                    {"hidden_share", place.hidden_share},
                    {"faults_per_second", place.faults},
                    {"allocations_per_second", place.allocations},
                    {"bytes_per_second", place.bytes},
                    {"live_bytes", place.live_bytes},
                    {"live_bytes_per_minute", json_of(place.growth)}});
  }
  return {{"seconds", at_seconds},
          {"malloc_share", rates.malloc_share},
          {"hidden_share", rates.hidden_share},
          {"cpu_share", rates.cpu_share},
          {"faults_per_second", rates.faults},
          {"allocations_per_second", rates.allocations},
          {"resident_bytes", rates.resident_bytes},
          {"resident_bytes_per_minute", json_of(rates.resident_growth)},
          {"live_bytes", rates.live_bytes},
          {"live_bytes_per_minute", json_of(rates.live_growth)},
          {"untouched_bytes", rates.untouched_bytes},
          {"places", list}};
}

}  // namespace tarn::cli
