// SPDX-License-Identifier: MIT
#include "cli/show/profile_verdict.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/show/box_text.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "cli/show/trouble_text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/places.hpp"
#include "profiler/analyze/trouble.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/recorded_command.hpp"

namespace tarn::cli {

namespace {

using profiler::base_unit;
using profiler::margin_of;
using profiler::place_row;
using profiler::profile;
using profiler::say_count;
using profiler::say_estimate;
using profiler::say_share;
using profiler::say_time;
using profiler::sum_of_sites;
using profiler::trouble;
using profiler::trouble_kind;

constexpr std::size_t most_places = 5;
constexpr std::size_t most_advice = 5;
constexpr double least_cost = 0.005;  // of the whole cost: what a row must have

std::string say_cost(const profiler::cost& one) {
  return say_estimate(base_unit::ns, one.total(), margin_of(one.whole_variance()));
}

// Of the program's processor time; "" if it is not known, as the process ended before the system's clock had ticked for it.
std::string share_of(const profile& p, const profiler::cost& one) {
  const double whole = profiler::processor_ns(p);
  return whole > 0 ? say_share(one.total(), whole, margin_of(one.whole_variance())) : "";
}

// Brings the places first that are shown one by one: their cost can be told from zero, and is not negligible.
std::size_t split_off_others(std::vector<place_row>& places, const profiler::cost& all) {
  return profiler::split_off_others(places, most_places, [&all](const place_row& one) {
    return std::pair{one.charged.total(), std::max(one.margin(), least_cost * all.total())};
  });
}

std::string blocks_of(const profiler::site_figures& sum, const char* of) {
  return say_estimate(base_unit::count, sum.allocations + sum.maps, margin_of(sum.allocations_variance)) +
         of + say_estimate(base_unit::bytes, sum.bytes + sum.mapped_bytes, margin_of(sum.bytes_variance));
}

std::string paying_line(const profile& p, const profiler::cost& paid, const std::string& what,
                        const std::string& name) {
  return fmt::format("  {}\t{}\t{}\t{}\n", pad_left(share_of(p, paid), 6), pad_left(say_cost(paid), 12),
                     pad_left(what, 20), name);
}

// The costliest places, and all else as one row, so that the rows add up.
std::string paying_lines(const profile& p, const profiler::cost& all) {
  std::vector<place_row> places = profiler::places_of(p);
  const std::size_t shown = split_off_others(places, all);
  const std::vector<std::string> names = profiler::names_of(p, places);
  std::string text;
  profiler::site_figures rest;
  double shown_ns = 0;
  for (std::size_t index = 0; index < places.size(); ++index) {
    const place_row& one = places[index];
    if (index >= shown) {
      profiler::add_up(rest, one.sum);
      continue;
    }
    shown_ns += one.charged.total();
    text += paying_line(p, one.charged,
                        one.sum.allocations + one.sum.maps == 0 ? say_count(one.sum.faults) + " page faults"
                                                                : blocks_of(one.sum, " of "),
                        names[index]);
    text += hint_line(p, one.where, 25);
  }
  profiler::cost others = cost_of(p, rest);
  others.fault_ns += std::max(0.0, all.total() - shown_ns - others.total());  // page faults outside of blocks
  if (others.total() < least_cost * all.total()) return text;
  const std::string count =
      shown < places.size() ? fmt::format(" ({})", profiler::say_places(places.size() - shown)) : "";
  return text + paying_line(p, others, "", "others" + count);
}

constexpr double longer = 4;  // halves the bounds

// "": tarn prove would refuse.
std::string next_command(const profile& p) {
  const profiler::repeat_refusal refusal = profiler::repeat_refusal_of(p.meta);
  if (!refusal.problem.empty() && !refusal.is_server) return "";
  return fmt::format("  next: tarn prove {}FILE measures what each of them saves\n",
                     refusal.is_server ? "--load COMMAND " : "");
}

// What can be changed, from the first to try, and what is better left unchanged.
void add_advice(const profile& p, const std::vector<profiler::advice>& actions, bool is_proven_next,
                summary& into) {
  std::string& text = into.help;
  text += "  what would help (the reasons: tarn advise FILE):\n";
  std::size_t shown = 0;
  bool is_undecided = false;
  for (const profiler::advice& one : actions) {
    if (one.instead_of >= 0) continue;
    is_undecided = is_undecided || one.grade == profiler::advice_grade::undecided;
    if (one.kind == profiler::advice_kind::leave_it) {
      text += fmt::format("    {}\n", one.headline);
      continue;
    }
    if (++shown > most_advice) continue;
    text += fmt::format("    {}{}\n", one.headline, is_remark(one) ? "" : ": " + say_figures(one));
  }
  if (shown > 0 && p.proven.rounds == 0 && !is_proven_next) into.next += next_command(p);
  if (is_undecided) {
    into.next +=
        fmt::format("  next: tarn prove --for {:.0f} {}FILE measures longer, to decide\n",
                    std::ceil(longer * p.proven.seconds), p.proven.load.empty() ? "" : "--load COMMAND ");
  }
}

// How much of the program's time it is, and for what.
std::string cost_line(const profile& p, const profiler::cost& all) {
  const double processor = profiler::processor_ns(p);
  const std::string whole =
      processor > 0 ? fmt::format("{} of {} processor time: ", share_of(p, all), say_time(processor)) : "";
  if (p.mode == profiler::profile_mode::faults) {
    const std::string unseen =
        p.unseen_faults > 0 ? fmt::format("; {} more were not seen", say_count(p.unseen_faults)) : "";
    return fmt::format("memory cost {}{} for {} page faults, by the code that touched the memory{}\n", whole,
                       say_cost(all), say_count(sum_of_sites(p).faults), unseen);
  }
  const double kernel_margin = all.hidden() > 0 ? margin_of(all.kernel_variance) / all.hidden() : 0;
  return fmt::format(
      "memory cost {}{}, of it {} for page faults, {} to give memory back, {} in malloc and free\n", whole,
      say_cost(all), say_estimate(base_unit::ns, all.fault_ns, kernel_margin * all.fault_ns),
      say_estimate(base_unit::ns, all.unmap_ns, kernel_margin * all.unmap_ns),
      say_estimate(base_unit::ns, all.malloc_ns,
                   margin_of(all.malloc_variance + all.malloc_bias * all.malloc_bias)));
}

// For how much of it.
std::string amount_line(const profile& p) {
  if (p.mode == profiler::profile_mode::faults) return "";
  const profiler::site_figures sum = sum_of_sites(p);
  const std::string unseen =
      p.unseen_faults > 0 ? fmt::format(", {} of them not seen", say_count(p.unseen_faults)) : "";
  return fmt::format("  {}, {} page faults{}\n",
                     blocks_of(sum, sum.maps > 0 ? " allocations and mappings of " : " allocations of "),
                     say_count(sum.faults + p.other_faults + p.unseen_faults), unseen);
}

// Of a trouble with time: what memory it took, and who held it if that is much.
std::string memory_line(const profile& p, const trouble& what) {
  constexpr double much = 0.01;
  if (what.peak_bytes <= 0) return "";
  return "  " + render_trouble(p, what) +
         (what.peak_bytes >= much * what.available_bytes() ? most_held(p) : "");
}

// Of a program that has ended by itself: what nobody freed, if that is a good part of what it ever held.
std::string leak_sentence(const profile& p) {
  constexpr double least_bytes = 1 << 20;
  constexpr double least_share = 0.1;
  const nlohmann::json* const end = profiler::member_in(p.meta, "exit");
  if (end == nullptr || profiler::number_in(*end, "signal") != 0) return "";
  const profiler::site_figures sum = sum_of_sites(p);
  const nlohmann::json* const leaks = profiler::member_in(p.meta, "leaks");
  const bool is_known = leaks != nullptr && profiler::flag_in(*leaks, "known");
  const double bytes = is_known ? sum.lost_bytes + sum.indirect_bytes : sum.live_bytes;
  if (bytes < least_bytes || bytes < least_share * sum.bytes_at_peak) return "";
  const std::string what =
      is_known ? fmt::format("{} in {} blocks were lost: never freed, and nothing pointed to them",
                             profiler::say_bytes(bytes), say_count(sum.lost + sum.indirect))
               : say_estimate(base_unit::bytes, bytes, margin_of(profiler::live_bytes_variance(sum))) +
                     " were never freed";
  return fmt::format("  {} (where: tarn show --by leaks FILE)\n", what);
}

std::string in_columns(std::string text) {
  for (std::size_t at = text.find('\t'); at != std::string::npos; at = text.find('\t', at))
    text.replace(at, 1, "  ");
  return text;
}

nlohmann::json as_json(const trouble& what) {
  nlohmann::json one = {{"kind", name_of(what.kind)},
                        {"sentence", profiler::sentence_of(what)},
                        {"signal", what.signal},
                        {"peak_bytes", what.peak_bytes},
                        {"recorder_bytes", what.recorder_bytes},
                        {"limit_bytes", what.limit_bytes},
                        {"machine_bytes", what.machine_bytes}};
  if (what.growth) {
    one["growth"] = {{"of", what.growth->is_live ? "live" : "resident"},
                     {"from_ns", what.growth->from_ns},
                     {"to_ns", what.growth->to_ns},
                     {"from_bytes", what.growth->from_bytes},
                     {"to_bytes", what.growth->to_bytes}};
  }
  return one;
}

}  // namespace

std::string render_memory_verdict(const profile& p) {
  const trouble what = profiler::trouble_of(p);
  const bool is_urgent = what.kind == trouble_kind::death || what.kind == trouble_kind::growth ||
                         what.is_near_limit() || what.gave_up();
  return is_urgent ? in_columns(render_trouble(p, what)) : "";
}

// Of a process of which there is a black box or a core file: how it ended, and who held its memory.
static std::string end_of_box(const profile& p) {
  const trouble what = profiler::trouble_of(p);
  const nlohmann::json* const end = profiler::member_in(p.meta, "exit");
  const int status = end != nullptr ? static_cast<int>(profiler::number_in(*end, "status")) : 0;
  std::string sentence = profiler::flag_in(p.meta, "core_file")
                             ? "a core file that names no signal: gcore makes one of a process that runs"
                             : "it has ended, and nobody saw how";
  if (what.kind == trouble_kind::death) {
    sentence = profiler::sentence_of(what);
  } else if (end == nullptr && what.out_of_memory == "group") {
    sentence = fmt::format(
        "it has ended, and nobody saw how; the kernel killed a process of its control group then, as memory had run out "
        "(OOM killer); the limit of the group is {}",
        profiler::say_bytes(what.limit_bytes));
  } else if (status != 0) {
    sentence = fmt::format("it ended with status {}", status);
  }
  return sentence + "\n" + render_death(p, what) + render_box(p) + render_memory_help(p, what);
}

summary summarise(const profile& p, const std::vector<profiler::advice>& actions, bool is_proven_next) {
  const trouble what = profiler::trouble_of(p);
  const profiler::cost all = profiler::cost_of_all(p);
  summary made;
  std::string& text = made.problem;
  if (!profiler::has_costs(p)) {
    if (profiler::flag_in(p.meta, "black_box")) text = end_of_box(p);
    return made;
  }
  text = what.kind == trouble_kind::time
             ? cost_line(p, all) + amount_line(p) + paying_lines(p, all) + memory_line(p, what)
             : render_trouble(p, what) + "  " + cost_line(p, all);
  // A signal that has nothing to do with memory does not say what the program paid.
  if (what.kind == trouble_kind::death && !what.is_memory()) text += amount_line(p) + paying_lines(p, all);
  text += leak_sentence(p) + render_memory_help(p, what);
  if (p.mode != profiler::profile_mode::faults) {
    // Advice is about time. Where memory is the trouble, some of it would make that worse.
    if (what.is_memory())
      made.help = "  what can be changed about its time: tarn advise FILE\n";
    else
      add_advice(p, actions, is_proven_next, made);
  }
  if (p.lost_events > 0) {
    made.next += fmt::format("  {} event{} lost\n", profiler::say_count(p.lost_events),
                             p.lost_events == 1 ? " was" : "s were");
  }
  return made;
}

std::string render_verdict(const profile& p, bool is_proven_next) {
  const summary made = summarise(p, profiler::advise(p), is_proven_next);
  return in_columns(made.problem + made.help + made.next);
}

nlohmann::json verdict_as_json(const profile& p) {
  const profiler::cost all = profiler::cost_of_all(p);
  const profiler::site_figures sum = sum_of_sites(p);
  nlohmann::json advice = nlohmann::json::array();
  if (p.mode != profiler::profile_mode::faults) {
    for (const profiler::advice& one : profiler::advise(p)) advice.push_back(profiler::as_json(one));
  }
  std::vector<place_row> paying = profiler::places_of(p);
  paying.resize(split_off_others(paying, all));
  const std::vector<std::string> names = profiler::names_of(p, paying);
  nlohmann::json places = nlohmann::json::array();
  for (std::size_t index = 0; index < paying.size(); ++index) {
    places.push_back({{"where", names[index]},
                      {"ns", paying[index].charged.total()},
                      {"margin_ns", paying[index].margin()},
                      {"allocations", paying[index].sum.allocations + paying[index].sum.maps}});
  }
  return {{"trouble", as_json(profiler::trouble_of(p))},
          {"allocations", sum.allocations},
          {"bytes", sum.bytes},
          {"malloc_ns", all.malloc_ns},
          {"margin_ns", margin_of(all.whole_variance())},
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

void print_box_verdict(const profile& p) {
  const std::string text = fmt::format("tarn: {}, process {:.0f}: ", profiler::text_in(p.meta, "command"),
                                       profiler::number_in(p.meta, "pid")) +
                           end_of_box(p);
  write_message(fold(in_columns(text), terminal_width(STDERR_FILENO)));
}

void print_verdict(const profile& p, bool is_proven_next) {
  std::string text = "tarn: " + render_verdict(p, is_proven_next);
  if (p.meta.contains("refused")) {
    for (const auto& sentence : p.meta["refused"]) {
      if (sentence.is_string()) text += fmt::format("  note: {}\n", sentence.get<std::string>());
    }
  }
  write_message(fold(text, terminal_width(STDERR_FILENO)));
}

}  // namespace tarn::cli
