// SPDX-License-Identifier: MIT
#include "live_view.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/quantity.hpp"
#include "profiler/analyze/site_group.hpp"
#include "profiler/model/figure_columns.hpp"
#include "text.hpp"

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

double member_of(const live_place& place, live_order order) {
  switch (order) {
    case live_order::cost:
      return place.total_ns;
    case live_order::hidden:
      return place.hidden_ns;
    case live_order::faults:
      return place.faults;
    case live_order::allocations:
      return place.allocations;
    case live_order::bytes:
      return place.bytes;
    case live_order::live:
      return place.live_bytes;
  }
  return 0;
}

// `after` with what happened since `before` alone; live figures stay.
profile difference_of(const profile& before, const profile& after) {
  profile result = after;
  for (std::size_t index = 0; index < std::min(before.sites.size(), result.sites.size()); ++index) {
    for (const profiler::figure_column& each : profiler::figure_columns) {
      double& value = result.sites[index].figures.*each.member;
      if (each.member == &profiler::site_figures::live ||
          each.member == &profiler::site_figures::live_bytes ||
          each.member == &profiler::site_figures::peak_bytes) {
        continue;
      }
      value = std::max(0.0, value - before.sites[index].figures.*each.member);
    }
  }
  return result;
}

std::string shorten(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - width + 3);
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

std::vector<live_place> places_between(const profile& before, const profile& after, live_order order) {
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
    return member_of(a, order) > member_of(b, order);
  });
  return places;
}

std::string render_rates(const live_rates& rates, bool colour) {
  const std::string cost =
      fmt::format("malloc and free {}   hidden {}   of {} CPU", say_rate(rates.visible_ns),
                  say_rate(rates.hidden_ns), say_rate(rates.cpu_ns));
  const std::string memory =
      fmt::format("{} faults/s   {} allocations/s   resident {}   live {}   untouched {}",
                  say_count(rates.faults), say_count(rates.allocations), say_bytes(rates.resident_bytes),
                  say_bytes(rates.live_bytes), say_bytes(rates.untouched_bytes));
  return paint(cost, style::bold, colour) + "\n" + memory + "\n";
}

std::string render_places(const std::vector<live_place>& places, std::size_t most, live_order order,
                          bool colour) {
  struct heading {
    const char* name;
    live_order order;
  };
  constexpr heading headings[] = {{"cost", live_order::cost},       {"hidden", live_order::hidden},
                                  {"faults/s", live_order::faults}, {"allocs/s", live_order::allocations},
                                  {"bytes/s", live_order::bytes},   {"live", live_order::live}};
  std::string text;
  for (const heading& each : headings) {
    text += pad_left(fmt::format("{}{}", each.name, each.order == order ? "*" : ""), 13);
  }
  text = paint(text + "  " + pad_right("suggested", 13) + "place", style::bold, colour) + "\n";
  for (std::size_t index = 0; index < std::min(most, places.size()); ++index) {
    const live_place& place = places[index];
    text += pad_left(say_rate(place.total_ns), 13) + pad_left(say_rate(place.hidden_ns), 13) +
            pad_left(say_count(place.faults), 13) + pad_left(say_count(place.allocations), 13) +
            pad_left(say_bytes(place.bytes), 13) + pad_left(say_bytes(place.live_bytes), 13) + "  ";
    text += paint(pad_right(place.suggestion.empty() ? "-" : place.suggestion, 13),
                  place.suggestion.empty() ? style::faint : style::good, colour);
    text += place.place + (place.type.empty() ? "" : "  " + paint(place.type, style::faint, colour)) + "\n";
  }
  return text;
}

std::string live_row_heading() {
  return pad_left("seconds", 8) + pad_left("visible", 13) + pad_left("hidden", 13) +
         pad_left("faults/s", 12) + pad_left("allocs/s", 13) + pad_left("resident", 11) +
         pad_left("live", 11) + pad_left("untouched", 11) + "  costliest place";
}

std::string live_row(double at_seconds, const live_rates& rates, const std::vector<live_place>& places) {
  std::string text =
      pad_left(fmt::format("{:.1f}", at_seconds), 8) + pad_left(say_rate(rates.visible_ns), 13) +
      pad_left(say_rate(rates.hidden_ns), 13) + pad_left(say_count(rates.faults), 12) +
      pad_left(say_count(rates.allocations), 13) + pad_left(say_bytes(rates.resident_bytes), 11) +
      pad_left(say_bytes(rates.live_bytes), 11) + pad_left(say_bytes(rates.untouched_bytes), 11);
  if (!places.empty() && places.front().total_ns > 0) {
    text += "  " + shorten(places.front().place, 60);
    if (!places.front().suggestion.empty()) text += fmt::format(" ({})", places.front().suggestion);
  }
  return text;
}

nlohmann::json as_json(double at_seconds, const live_rates& rates, const std::vector<live_place>& places) {
  nlohmann::json list = nlohmann::json::array();
  for (const live_place& place : places) {
    if (list.size() == 20) break;
    list.push_back({{"place", place.place},
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
