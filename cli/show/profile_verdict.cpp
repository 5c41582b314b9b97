// SPDX-License-Identifier: MIT
#include "cli/show/profile_verdict.hpp"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/memory_kinds.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

namespace {

using profiler::memory_kind;
using profiler::memory_row;
using profiler::profile;
using profiler::say_bytes;

constexpr double near_limit = 0.9;
constexpr std::size_t most_holders = 4;

struct holder {
  double bytes = 0;
  std::string name;
};

// Blocks and mappings by place, everything else by kind; the largest first.
std::vector<holder> holders_of(const profile& p, const memory_row& row) {
  std::vector<holder> all;
  for (const memory_kind& kind : profiler::memory_kinds) {
    const bool has_places = kind.member == &memory_row::live || kind.member == &memory_row::mapped;
    const auto parts = has_places ? placed_parts(p, row, kind) : std::vector<profiler::placed_memory>();
    for (const profiler::placed_memory& part : parts) {
      const char* const what = kind.member == &memory_row::live ? "live blocks" : "mapped";
      all.push_back({part.bytes, fmt::format("{}: {}", what, show_frame(part.where, 0))});
    }
    if (parts.empty() && row.*kind.member > 0) all.push_back({row.*kind.member, text_of(kind, p)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const holder& left, const holder& right) { return left.bytes > right.bytes; });
  if (all.size() > most_holders) all.resize(most_holders);
  return all;
}

}  // namespace

double peak_resident_bytes(const profile& p) {
  double peak = profiler::number_in(p.meta, "peak_resident_bytes");
  for (const auto& row : p.counters) peak = std::max(peak, row.resident_bytes);
  return peak;
}

std::string render_memory_verdict(const profile& p) {
  const auto end = p.meta.find("exit");
  const int signal =
      end != p.meta.end() && end->is_object() ? static_cast<int>(profiler::number_in(*end, "signal")) : 0;
  const double limit = profiler::number_in(p.meta, "memory_limit_bytes");
  const double peak = peak_resident_bytes(p);
  const bool is_near = limit > 0 && peak >= near_limit * limit;
  if (signal == 0 && !is_near) return "";
  std::string text = signal != 0 ? format_exit(W_EXITCODE(0, signal)) + "; " : "";
  text += fmt::format("its resident memory reached {}{}",
                      profiler::flag_in(p.meta, "peak_resident_exact") ? "" : "at least ", say_bytes(peak));
  if (limit > 0) text += fmt::format("; the limit of its control group is {}", say_bytes(limit));
  text += '\n';
  const memory_row* const row = p.memory.highest();
  if (row == nullptr || (signal != SIGKILL && !is_near)) return text;
  text += fmt::format("  at {}, of {} resident (all of it: tarn show --by rss FILE):\n",
                      profiler::say_time(static_cast<double>(row->time_ns)), say_bytes(row->resident_bytes));
  for (const holder& one : holders_of(p, *row)) {
    text += fmt::format("  {} {}  {}\n", pad_left(say_bytes(one.bytes), 10),
                        pad_left(profiler::say_share(one.bytes, row->sum()), 7), one.name);
  }
  return text;
}

using profiler::say_count;
using profiler::say_margin;
using profiler::say_share;
using profiler::say_time;

namespace {

constexpr std::size_t most_sites = 5;
constexpr std::size_t most_advice = 5;

// " ± 12 ms", to follow a figure; empty if the figure is exact, or the margin too small to show.
std::string margin_ns(double variance) {
  const double margin = profiler::margin_of(variance);
  return margin < 1 ? "" : fmt::format(" ± {}", say_time(margin));
}

std::string margin_share(double variance, double value) {
  const std::string margin = say_margin(profiler::margin_of(variance), value);
  return margin.empty() ? "" : " " + margin;
}

struct paying_place {
  std::string name;       // shown: with the base name of the file
  std::string full_name;  // the key: with the whole path of the file
  double cost = 0;
  double cost_variance = 0;
  double malloc_bias = 0;
  profiler::site_figures figures;  // counts and bytes only
};

void set_names(paying_place& place, const profiler::profile& p, const profiler::source_frame& frame) {
  const std::string file = profiler::file_of(p, frame);
  const std::string line = frame.line != 0 ? fmt::format(":{}", frame.line) : "";
  place.full_name = file.empty() ? frame.function : fmt::format("{} ({}{})", frame.function, file, line);
  place.name = frame.file.empty() ? frame.function
                                  : fmt::format("{} ({}{})", frame.function,
                                                frame.file.substr(frame.file.rfind('/') + 1), line);
}

// Places that would look alike are shown with the whole path of the file.
void tell_apart(std::vector<paying_place>& places) {
  std::map<std::string, int> alike;
  for (const paying_place& place : places) ++alike[place.name];
  for (paying_place& place : places) {
    if (alike[place.name] > 1) place.name = place.full_name;
  }
}

// The costs by place in the program, summed over all call paths that lead there; costliest first.
std::vector<paying_place> paying_places(const profiler::profile& p) {
  std::map<std::string, paying_place> by_full_name;
  for (const profiler::site& site : p.sites) {
    const profiler::cost one = profiler::cost_of(p, site.figures);
    const double cost = one.total();
    if (cost <= 0) continue;
    paying_place named;
    set_names(named, p, profiler::site_label(p, site));
    paying_place& place = by_full_name.try_emplace(named.full_name, named).first->second;
    place.cost += cost;
    place.cost_variance += one.variance();
    place.malloc_bias += one.malloc_bias;
    place.figures.allocations += site.figures.allocations + site.figures.maps;
    place.figures.faults += site.figures.faults;
    place.figures.bytes += site.figures.bytes + site.figures.mapped_bytes;
  }
  std::vector<paying_place> places;
  for (auto& [name, place] : by_full_name) {
    place.cost_variance += place.malloc_bias * place.malloc_bias;
    places.push_back(std::move(place));
  }
  tell_apart(places);
  std::sort(places.begin(), places.end(),
            [](const paying_place& left, const paying_place& right) { return left.cost > right.cost; });
  return places;
}

// What can be changed, from the first to try, and what is better left unchanged.
std::string render_advice(const profiler::profile& p) {
  std::string text =
      p.proven.rounds > 0
          ? "  what to do (all of it, with the reasons: tarn advise FILE):\n"
          : "  what to look at (with the reasons: tarn advise FILE; what it saves: tarn prove FILE):\n";
  std::size_t shown = 0;
  for (const profiler::advice& one : profiler::advise(p)) {
    if (one.instead_of >= 0) continue;
    if (one.kind == profiler::advice_kind::leave_it) {
      text += fmt::format("    {}\n", one.headline);
      continue;
    }
    if (++shown > most_advice) continue;
    text += fmt::format("    {}{}\n", one.headline, is_remark(one) ? "" : ": " + say_figures(one));
  }
  return text;
}

}  // namespace

std::string render_verdict(const profiler::profile& p) {
  const profiler::cost all = profiler::cost_of_all(p);
  double allocations = 0;
  double bytes = 0;
  double joined = 0;
  double allocations_variance = 0;
  double bytes_variance = 0;
  for (const profiler::site& site : p.sites) {
    allocations += site.figures.allocations;
    bytes += site.figures.bytes;
    joined += site.figures.faults;
    allocations_variance += site.figures.allocations_variance;
    bytes_variance += site.figures.bytes_variance;
  }
  std::string text = p.mode == profiler::profile_mode::faults
                         ? fmt::format("{} page faults", say_count(joined))
                         : fmt::format("{}{} allocations of {}{}", say_count(allocations),
                                       margin_share(allocations_variance, allocations), say_bytes(bytes),
                                       margin_share(bytes_variance, bytes));
  text += fmt::format("; memory truly cost {}{}", say_time(all.total()), margin_ns(all.whole_variance()));
  // Zero: the process ended before the system's clock had ticked for it.
  const double processor = profiler::processor_ns(p);
  text += processor > 0 ? fmt::format(" of {} processor time\n", say_time(processor)) : "\n";
  if (p.mode == profiler::profile_mode::faults) {
    text += fmt::format("  page faults: {} by the code that touched the memory, {} not seen\n",
                        say_count(joined), say_count(p.unseen_faults));
  } else {
    text += fmt::format(
        "  in malloc and free {} ({}), which a timer around them sees; afterwards in the "
        "kernel {} for page faults and {} for giving memory back ({}), which it does not\n",
        say_time(all.malloc_ns), say_share(all.malloc_ns, all.total()), say_time(all.fault_ns),
        say_time(all.unmap_ns), say_share(all.hidden(), all.total()));
    text += fmt::format(
        "  page faults: {} on blocks of a known site, {} elsewhere (images, stacks, the allocator's own), {} not "
        "seen\n",
        say_count(joined), say_count(p.other_faults), say_count(p.unseen_faults));
  }
  std::vector<paying_place> places = paying_places(p);
  if (places.size() > most_sites) places.resize(most_sites);
  for (const paying_place& place : places) {
    if (place.figures.allocations == 0) {
      text += fmt::format("  {:>9} {:>7}  {:>8} page faults  {}\n", say_time(place.cost),
                          say_share(place.cost, all.total()), say_count(place.figures.faults), place.name);
      continue;
    }
    text += fmt::format("  {:>9} {:>7}  {:>8} x {:>10}  {}{}\n", say_time(place.cost),
                        say_share(place.cost, all.total()), say_count(place.figures.allocations),
                        say_bytes(place.figures.bytes / std::max(1.0, place.figures.allocations)), place.name,
                        margin_share(place.cost_variance, place.cost));
  }
  if (const std::string names = profiler::missing_names(p); !names.empty())
    text += fmt::format("  {}\n", names);
  if (p.mode != profiler::profile_mode::faults) text += render_advice(p);
  if (p.lost_events > 0) text += fmt::format("  {:.0f} events were lost\n", p.lost_events);
  return text;
}

nlohmann::json verdict_as_json(const profiler::profile& p) {
  const profiler::cost all = profiler::cost_of_all(p);
  double allocations = 0;
  double bytes = 0;
  for (const profiler::site& site : p.sites) {
    allocations += site.figures.allocations;
    bytes += site.figures.bytes;
  }
  nlohmann::json advice = nlohmann::json::array();
  if (p.mode != profiler::profile_mode::faults) {
    for (const profiler::advice& one : profiler::advise(p)) advice.push_back(profiler::as_json(one));
  }
  nlohmann::json places = nlohmann::json::array();
  for (const paying_place& place : paying_places(p)) {
    if (places.size() == most_sites) break;
    places.push_back({{"where", place.name},
                      {"ns", place.cost},
                      {"margin_ns", profiler::margin_of(place.cost_variance)},
                      {"allocations", place.figures.allocations}});
  }
  return {{"allocations", allocations},
          {"bytes", bytes},
          {"malloc_ns", all.malloc_ns},
          {"margin_ns", profiler::margin_of(all.whole_variance())},
          {"processor_ns", profiler::processor_ns(p)},
          {"recorder_ns", p.recorder_ns},
          {"fault_ns", all.fault_ns},
          {"unmap_ns", all.unmap_ns},
          {"user_ns", p.counters.empty() ? 0 : p.counters.back().user_ns},
          {"system_ns", p.counters.empty() ? 0 : p.counters.back().system_ns},
          {"other_faults", p.other_faults},
          {"unseen_faults", p.unseen_faults},
          {"lost_events", p.lost_events},
          {"places", places},
          {"advice", advice},
          {"meta", p.meta}};
}

void print_verdict(const profiler::profile& p) {
  std::string text;
  if (const std::string memory = render_memory_verdict(p); !memory.empty()) text += "tarn: " + memory;
  text += "tarn: " + render_verdict(p);
  if (p.meta.contains("refused")) {
    for (const auto& sentence : p.meta["refused"]) {
      if (sentence.is_string()) text += fmt::format("  not seen: {}\n", sentence.get<std::string>());
    }
  }
  fmt::print(stderr, "{}", fold(text, terminal_width(STDERR_FILENO)));
}

}  // namespace tarn::cli
