// SPDX-License-Identifier: MIT
#include "cli/show/live_view.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/site_group.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/figure_columns.hpp"

namespace tarn::cli {

using profiler::profile;
using profiler::say_bytes;
using profiler::say_count;
using profiler::say_time;

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
constexpr double live_place::*ordered_by[] = {&live_place::total_ns, &live_place::hidden_ns,
                                              &live_place::faults,   &live_place::allocations,
                                              &live_place::bytes,    &live_place::live_bytes};

// `after`, whose totals count only what happened since `before`; live figures are unchanged, or what they grew by.
profile difference_of(const profile& before, const profile& after, live_figure live) {
  profile result = after;
  for (std::size_t index = 0; index < std::min(before.sites.size(), result.sites.size()); ++index) {
    for (const profiler::figure_column& each : profiler::figure_columns) {
      double& value = result.sites[index].figures.*each.member;
      const bool is_live =
          each.member == &profiler::site_figures::live || each.member == &profiler::site_figures::live_bytes;
      if (is_live && live == live_figure::growth) value -= before.sites[index].figures.*each.member;
      if (is_live || each.member == &profiler::site_figures::peak_bytes) continue;
      value = std::max(0.0, value - before.sites[index].figures.*each.member);
    }
  }
  return result;
}

std::string say_rate(double ns) { return fmt::format("{}/s", say_time(ns)); }

}  // namespace

live_rates rates_between(const profile& before, const profile& after) {
  live_rates rates;
  rates.seconds = seconds_between(before, after);
  const profiler::cost first = cost_of_all(before);
  const profiler::cost last = cost_of_all(after);
  rates.visible_ns = per_second(first.malloc_ns, last.malloc_ns, rates.seconds);
  rates.hidden_ns = per_second(first.hidden(), last.hidden(), rates.seconds);
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
  rates.allocations = per_second(earlier, allocations, rates.seconds);
  if (!after.counters.empty()) {
    const profiler::counter_row none;
    const profiler::counter_row& then = before.counters.empty() ? none : before.counters.back();
    const profiler::counter_row& now = after.counters.back();
    const double passed =
        std::max(1e-3, (static_cast<double>(now.time_ns) - static_cast<double>(then.time_ns)) * 1e-9);
    rates.resident_bytes = now.resident_bytes;
    rates.faults = per_second(then.faults, now.faults, passed);
    rates.cpu_ns = per_second(then.user_ns + then.system_ns, now.user_ns + now.system_ns, passed);
  }
  return rates;
}

std::vector<live_place> places_between(const profile& before, const profile& after, live_order order,
                                       live_figure live) {
  std::map<std::uint32_t, std::string> suggestions;
  for (const profiler::advice& one : profiler::advise(after)) {
    if (one.kind == profiler::advice_kind::leave_it || one.kind == profiler::advice_kind::allocator) continue;
    for (const std::uint32_t site : one.sites) suggestions.try_emplace(site, kind_name(one.kind));
  }
  const profile difference = difference_of(before, after, live);
  const double seconds = seconds_between(before, after);
  std::vector<live_place> places;
  for (const profiler::site_group& group : group_sites(difference)) {
    live_place place;
    place.name = show_frame(group.place, 0);
    place.place = say_place(group.place);
    place.type = group.type;
    const auto suggestion = suggestions.find(group.sites.front());
    if (suggestion != suggestions.end()) place.suggestion = suggestion->second;
    place.total_ns = group.charged.total() / seconds;
    place.hidden_ns = group.charged.hidden() / seconds;
    place.faults = group.sum.faults / seconds;
    place.allocations = group.sum.allocations / seconds;
    place.bytes = group.sum.bytes / seconds;
    place.live_bytes = group.sum.live_bytes;
    places.push_back(std::move(place));
  }
  std::stable_sort(places.begin(), places.end(), [order](const live_place& a, const live_place& b) {
    double live_place::*const by = ordered_by[static_cast<std::size_t>(order)];
    return a.*by > b.*by;
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
  std::size_t width;
  int rank;  // columns of the lowest rank are left out last
  live_order order;
  std::string (*show)(const live_place& place);
};

constexpr std::size_t narrowest_name = 30;
constexpr std::size_t suggestion_width = 15;
constexpr live_column live_columns[] = {
    {"cost", 12, 0, live_order::cost, [](const live_place& p) { return say_rate(p.total_ns); }},
    {"hidden", 12, 4, live_order::hidden, [](const live_place& p) { return say_rate(p.hidden_ns); }},
    {"faults/s", 10, 3, live_order::faults, [](const live_place& p) { return say_count(p.faults); }},
    {"allocs/s", 10, 2, live_order::allocations,
     [](const live_place& p) { return say_count(p.allocations); }},
    {"bytes/s", 11, 5, live_order::bytes, [](const live_place& p) { return say_bytes(p.bytes); }},
    {"live", 11, 1, live_order::live, [](const live_place& p) { return say_bytes(p.live_bytes); }},
};

std::vector<const live_column*> choose_columns(live_order order, std::size_t width, std::size_t& used) {
  std::vector<const live_column*> ranked;
  for (const live_column& each : live_columns) ranked.push_back(&each);
  std::sort(ranked.begin(), ranked.end(), [order](const live_column* left, const live_column* right) {
    if ((left->order == order) != (right->order == order)) return left->order == order;
    return left->rank < right->rank;
  });
  used = 0;
  std::size_t count = 0;
  while (count < ranked.size() && used + ranked[count]->width + narrowest_name <= width)
    used += ranked[count++]->width;
  ranked.resize(count);
  std::sort(ranked.begin(), ranked.end());  // in the order of their ranks
  return ranked;
}

}  // namespace

std::string render_rates(const live_rates& rates, std::size_t width, bool colour) {
  const std::string cost = fitting(
      {fmt::format("malloc and free {}", say_rate(rates.visible_ns)),
       fmt::format("hidden {}", say_rate(rates.hidden_ns)), fmt::format("of {} CPU", say_rate(rates.cpu_ns))},
      width);
  const std::string memory = fitting({fmt::format("resident {}", say_bytes(rates.resident_bytes)),
                                      fmt::format("live {}", say_bytes(rates.live_bytes)),
                                      fmt::format("{} faults/s", say_count(rates.faults)),
                                      fmt::format("{} allocations/s", say_count(rates.allocations)),
                                      fmt::format("untouched {}", say_bytes(rates.untouched_bytes))},
                                     width);
  return paint(cost, style::bold, colour) + "\n" + memory + "\n";
}

std::string render_places(const std::vector<live_place>& places, std::size_t most, live_order order,
                          std::size_t width, bool colour) {
  std::size_t used = 0;
  const std::vector<const live_column*> columns = choose_columns(order, width, used);
  constexpr std::size_t room_for_suggestion = narrowest_name + 10 + suggestion_width;
  const bool suggests = width >= used + room_for_suggestion;
  const std::size_t name_width = width - std::min(width - 1, used + (suggests ? suggestion_width : 0));
  std::string text = pad_right("place", name_width);
  for (const live_column* each : columns) {
    text += pad_left(fmt::format("{}{}", each->heading, each->order == order ? "*" : ""), each->width);
  }
  text = paint(text + (suggests ? "  suggested" : ""), style::bold, colour) + "\n";
  for (std::size_t index = 0; index < std::min(most, places.size()); ++index) {
    const live_place& place = places[index];
    const std::string name = place.name + (place.type.empty() ? "" : "  " + place.type);
    text += pad_right(cut_to_width(name, name_width), name_width);
    for (const live_column* each : columns) text += pad_left(each->show(place), each->width);
    if (suggests && !place.suggestion.empty()) text += "  " + paint(place.suggestion, style::good, colour);
    text += "\n";
  }
  return text;
}

std::string live_row_heading() {
  return pad_left("seconds", 8) + pad_left("visible", 13) + pad_left("hidden", 13) +
         pad_left("faults/s", 12) + pad_left("allocs/s", 13) + pad_left("resident", 11) +
         pad_left("live", 11) + pad_left("untouched", 11) + "  most expensive site";
}

std::string live_row(double at_seconds, const live_rates& rates, const std::vector<live_place>& places) {
  std::string text =
      pad_left(fmt::format("{:.1f}", at_seconds), 8) + pad_left(say_rate(rates.visible_ns), 13) +
      pad_left(say_rate(rates.hidden_ns), 13) + pad_left(say_count(rates.faults), 12) +
      pad_left(say_count(rates.allocations), 13) + pad_left(say_bytes(rates.resident_bytes), 11) +
      pad_left(say_bytes(rates.live_bytes), 11) + pad_left(say_bytes(rates.untouched_bytes), 11);
  if (!places.empty() && places.front().total_ns > 0) {
    text += "  " + cut_to_width(places.front().name, 60);
    if (!places.front().suggestion.empty()) text += fmt::format(" ({})", places.front().suggestion);
  }
  return text;
}

nlohmann::json as_json(double at_seconds, const live_rates& rates, const std::vector<live_place>& places) {
  nlohmann::json list = nlohmann::json::array();
  for (const live_place& place : places) {
    if (list.size() == 20) break;
    list.push_back({{"name", place.name},
                    {"place", place.place},
                    {"type", place.type},
                    {"suggestion", place.suggestion},
                    {"total_ns_per_second", place.total_ns},
                    {"hidden_ns_per_second", place.hidden_ns},
                    {"faults_per_second", place.faults},
                    {"allocations_per_second", place.allocations},
                    {"bytes_per_second", place.bytes},
                    {"live_bytes", place.live_bytes}});
  }
  return {{"seconds", at_seconds},
          {"visible_ns_per_second", rates.visible_ns},
          {"hidden_ns_per_second", rates.hidden_ns},
          {"cpu_ns_per_second", rates.cpu_ns},
          {"faults_per_second", rates.faults},
          {"allocations_per_second", rates.allocations},
          {"resident_bytes", rates.resident_bytes},
          {"live_bytes", rates.live_bytes},
          {"untouched_bytes", rates.untouched_bytes},
          {"places", list}};
}

}  // namespace tarn::cli
