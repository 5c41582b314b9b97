// SPDX-License-Identifier: MIT
#include "cli/show/trouble_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/memory_kinds.hpp"
#include "profiler/analyze/places.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

namespace {

using profiler::base_unit;
using profiler::memory_row;
using profiler::placed_memory;
using profiler::profile;
using profiler::say_bytes;
using profiler::say_estimate;
using profiler::say_share;
using profiler::say_time;
using profiler::trouble;
using profiler::trouble_kind;

constexpr std::size_t most_holders = 4;
constexpr std::size_t most_growing = 6;
constexpr double least_held = 0.005;
constexpr double least_untouched = 0.01;

std::string held_line(const std::string& bytes, const std::string& share, const std::string& text) {
  return fmt::format("  {}\t{}\t{}\n", pad_left(bytes, 14), pad_left(share, 6), text);
}

std::string part_line(double bytes, const memory_row& row, const std::string& text, double variance = 0,
                      double most = HUGE_VAL) {
  if (bytes <= 0) return "";
  const double margin = profiler::margin_of(variance);
  return held_line(say_estimate(base_unit::bytes, bytes, margin, most),
                   say_share(bytes, row.sum(), margin, most), text);
}

std::string held_places(const profile& p, const memory_row& row, const char* kind_name) {
  const profiler::memory_kind& kind = profiler::kind_named(kind_name);
  std::vector<placed_memory> parts = placed_parts(p, row, kind);
  const double most = most_of(row, kind);
  const std::size_t shown =
      profiler::split_off_others(parts, most_holders, [&row](const placed_memory& part) {
        return std::pair{part.bytes, std::max(profiler::margin_of(part.variance), least_held * row.sum())};
      });
  std::string text;
  placed_memory others;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const placed_memory& part = parts[index];
    if (index < shown) {
      text += part_line(part.bytes, row, "  " + show_frame(part.where, 0), part.variance, most);
      text += hint_line(p, part.where, 30);
      continue;
    }
    others.bytes += part.bytes;
    others.variance += part.variance;
  }
  if (others.bytes < least_held * row.sum()) return text;
  return text + part_line(others.bytes, row, fmt::format("  others ({})", parts.size() - shown),
                          others.variance, most);
}

// What malloc keeps: what lies among live blocks, and the rest, where that is known.
std::string kept_lines(const profile& p, const memory_row& row) {
  double cached = 0;
  bool is_known = false;
  for (const placed_memory& part : placed_parts(p, row, profiler::kind_named("kept"))) {
    is_known = true;
    if (part.where.function == profiler::pinned_by_nobody) cached += part.bytes;
  }
  if (!is_known) return part_line(row.kept, row, text_of(profiler::kind_named("kept"), p), row.live_variance);
  return part_line(row.kept - cached, row,
                   "free, but pinned by live blocks near it (who: tarn show --by pinned FILE)") +
         part_line(cached, row, "free: caches, malloc's own data, not given back yet");
}

std::string outside_line(const profile& p, const memory_row& row) {
  double bytes = 0;
  std::string kinds;
  for (const char* name : {"files", "written", "stacks", "shared", "other"}) {
    const profiler::memory_kind& kind = profiler::kind_named(name);
    if (row.*kind.member <= 0) continue;
    bytes += row.*kind.member;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", say_bytes(row.*kind.member), text_of(kind, p));
  }
  return part_line(bytes, row, "outside of malloc: " + kinds);
}

std::string growing_lines(const profile& p, const profiler::memory_growth& what) {
  std::vector<profiler::place_row> places = profiler::places_of(p);
  // What lived earlier is as uncertain, for its size, as what lives now.
  const auto margin = [](const profiler::place_row& one) {
    const profiler::site_figures& of = one.sum;
    return of.live_bytes > 0
               ? profiler::margin_of(profiler::live_bytes_variance(of) +
                                     of.live_bytes_variance * of.earlier_live_bytes / of.live_bytes)
               : of.earlier_live_bytes;
  };
  std::stable_sort(places.begin(), places.end(),
                   [](const profiler::place_row& left, const profiler::place_row& right) {
                     return left.growth() > right.growth();
                   });
  const std::size_t shown =
      profiler::split_off_others(places, most_growing, [&](const profiler::place_row& one) {
        return std::pair{one.growth(), margin(one)};
      });
  const std::vector<std::string> names = profiler::names_of(p, places);
  std::string text =
      fmt::format("  what grew since {}, by place (all that lives: tarn show -m live_bytes FILE):\n",
                  say_time(profiler::number_in(p.meta, "growth_from_ns")));
  double others = 0;
  for (std::size_t index = 0; index < places.size(); ++index) {
    const profiler::place_row& one = places[index];
    if (index >= shown) {
      others += one.growth();
      continue;
    }
    text += fmt::format("  {}\t{}; {} live at the end\n",
                        pad_left("+" + say_estimate(base_unit::bytes, one.growth(), margin(one)), 15),
                        names[index],
                        say_estimate(base_unit::bytes, one.sum.live_bytes,
                                     profiler::margin_of(profiler::live_bytes_variance(one.sum))));
    text += hint_line(p, one.where, 22);
  }
  if (std::abs(others) >= least_held * what.bytes())
    text += fmt::format("  {}\tothers ({})\n", pad_left((others < 0 ? "" : "+") + say_bytes(others), 15),
                        profiler::say_places(places.size() - shown));
  return text;
}

}  // namespace

// A box knows how much of malloc's memory was never touched, not which: either more lives than is resident, or what is resident of the
// live blocks is known much less than the samples tell it.
bool has_unknown_untouched(const profile& p, const memory_row& row) {
  if (!profiler::flag_in(p.meta, "black_box")) return false;
  const double of_samples = profiler::margin_of(profiler::live_bytes_variance(profiler::sum_of_sites(p)));
  return row.untouched >= least_untouched * row.sum() ||
         (of_samples > 0 && profiler::margin_of(row.live_variance) > 2 * of_samples);
}

bool has_pools(const profile& p) {
  const nlohmann::json* const engine = profiler::member_in(p.meta, "engine");
  return engine != nullptr &&
         (engine->contains("tarn_pool_bytes") || engine->contains("tarn_buffer_pool_bytes"));
}

// The last row of a box is the last look at the process, in which malloc's memory is brought to the end.
std::string look_line(const profile& p, const memory_row& row) {
  constexpr double noticeable_ns = 10e6;
  constexpr double noticeable = 0.02;
  const std::vector<memory_row>& rows = p.memory.rows;
  if (!profiler::flag_in(p.meta, "black_box") || rows.size() < 2 || &row != &rows.back()) return "";
  const auto before = static_cast<double>(row.time_ns - rows[rows.size() - 2].time_ns);
  const double unread = profiler::number_in(p.meta, "late_peak_bytes") - row.sum();
  const char* const lost =
      profiler::flag_in(p.meta, "heap_ranges_lost")
          ? "  which mappings are malloc's is not known, as it has had too many: what the program has mapped may count as "
            "blocks of malloc's that were not written\n"
          : "";
  if (before < noticeable_ns && unread < noticeable * row.sum()) return lost;
  std::string text = fmt::format("  what is not malloc's was read {} before", say_time(before));
  if (const double at = profiler::number_in(p.meta, "engine_ns"); has_pools(p))
    text += fmt::format(", what pools hold {} before",
                        say_time(std::max(0.0, static_cast<double>(row.time_ns) - at)));
  if (unread >= noticeable * row.sum())
    text += fmt::format("; at its peak since then there was {} more, of which nothing is known",
                        say_bytes(unread));
  return text + "\n" + lost;
}

std::string render_held(const profile& p, const memory_row& row) {
  std::string text = fmt::format("  what was resident at {}, {} (in full: tarn show --by rss FILE):\n",
                                 say_time(static_cast<double>(row.time_ns)), say_bytes(row.sum()));
  text += part_line(row.live, row, "live blocks", row.live_variance) + held_places(p, row, "live");
  text += part_line(row.rounding, row, text_of(profiler::kind_named("rounding"), p));
  text +=
      part_line(row.mapped, row, text_of(profiler::kind_named("mapped"), p)) + held_places(p, row, "mapped");
  text += kept_lines(p, row) + outside_line(p, row) + part_line(row.recorder, row, "tarn's recorder");
  text += held_line(say_bytes(row.sum()), "100 %", "sum of all mappings");
  if (row.untouched >= least_untouched * row.sum())
    text += fmt::format("  not in the sum: {} of the live blocks, never touched\n", say_bytes(row.untouched));
  return text + look_line(p, row);
}

namespace {

// What live blocks and mappings hold, by place, the largest first.
std::vector<placed_memory> held_by_place(const profile& p, const memory_row& row) {
  std::vector<placed_memory> holders;
  for (const char* kind : {"live", "mapped"}) {
    const std::vector<placed_memory> parts = placed_parts(p, row, profiler::kind_named(kind));
    std::copy_if(parts.begin(), parts.end(), std::back_inserter(holders),
                 [](const placed_memory& part) { return part.where.function != profiler::live_not_sampled; });
  }
  std::stable_sort(holders.begin(), holders.end(), [](const placed_memory& left, const placed_memory& right) {
    return left.bytes > right.bytes;
  });
  return holders;
}

// At least so much of the live blocks has no place.
double not_sampled(const profile& p, const memory_row& row) {
  for (const placed_memory& part : placed_parts(p, row, profiler::kind_named("live")))
    if (part.where.function == profiler::live_not_sampled)
      return part.bytes - profiler::margin_of(part.variance);
  return 0;
}

// Where all live blocks hold less than memory of another kind that has no place.
std::string largest_other(const profile& p, const memory_row& row,
                          const std::vector<placed_memory>& holders) {
  const profiler::memory_kind* largest = nullptr;
  for (const profiler::memory_kind& kind : profiler::memory_kinds) {
    const bool is_placed = kind.member == &memory_row::live || !placed_parts(p, row, kind).empty();
    if (!is_placed && (largest == nullptr || row.*kind.member > row.*largest->member)) largest = &kind;
  }
  if (profiler::flag_in(p.meta, "malloc_untold")) return "";
  if (largest == nullptr || row.*largest->member <= row.live + profiler::margin_of(row.live_variance))
    return "";
  const double margin = holders.empty() ? 0 : profiler::margin_of(holders.front().variance);
  return fmt::format(
      "  the largest part, {}, was no block of malloc's, but {}{}\n", say_bytes(row.*largest->member),
      text_of(*largest, p),
      holders.empty() || holders.front().bytes <= margin
          ? ""
          : fmt::format("; of the blocks {} holds the most: {}", show_frame(holders.front().where, 0),
                        say_estimate(base_unit::bytes, holders.front().bytes, margin)));
}

}  // namespace

std::string render_memory_help(const profile& p, const trouble& what) {
  constexpr double much = 0x1p26;
  const memory_row* const row = what.is_memory()        ? reading_for(p, what)
                                : p.memory.rows.empty() ? nullptr
                                                        : &p.memory.rows.back();
  if (row == nullptr) return "";
  if (text_of(profiler::kind_named("kept"), p) != profiler::kind_named("kept").text) {
    return row->kept < much || row->kept < 0.5 * row->sum()
               ? ""
               : fmt::format(
                     "  {} lie in blocks from before tarn attached, or are free: who holds them shows tarn profile -- PROGRAM\n",
                     say_bytes(row->kept));
  }
  const double margin = profiler::margin_of(row->live_variance);
  const bool is_box = profiler::flag_in(p.meta, "black_box");
  if (row->kept - margin >= much && row->kept - margin >= 0.5 * row->sum()) {
    if (is_box && !profiler::member_in(p.meta, "engine")) return "";  // it may be pools' memory
    return fmt::format("  {} of {} resident at {} were free, but kept by malloc: {}\n",
                       say_estimate(base_unit::bytes, row->kept, margin), say_bytes(row->sum()),
                       say_time(static_cast<double>(row->time_ns)),
                       is_box ? "whole pages of it go back after a second, the rest lies beside live blocks"
                              : "tarn run -- PROGRAM gives idle memory back");
  }
  const std::vector<placed_memory> holders = held_by_place(p, *row);
  if (!what.is_memory()) return "";
  if (std::string other = largest_other(p, *row, holders); !other.empty()) return other;
  const double doubt = has_unknown_untouched(p, *row) ? 2 : 1;
  const bool is_known =
      holders.empty() || holders.front().bytes > doubt * profiler::margin_of(holders.front().variance);
  if (!is_known && doubt > 1)
    return "  which of the live blocks were touched, a black box does not know: tarn profile -- PROGRAM does\n";
  if (!is_known || not_sampled(p, *row) >= 0.5 * row->sum())
    return "  who holds most of it, more samples tell: a smaller TARN_PROFILE (by default 512K)\n";
  if (holders.empty()) return "";
  const std::string python =
      holders.front().where.file.ends_with(".py") && row->mapped > row->live
          ? "  python keeps small objects in mappings of its own; with PYTHONMALLOC=malloc "
            "each has its place\n"
          : "";
  return fmt::format(
             "  what would help: to hold less in {}{}; another malloc can save no more than the {} that malloc keeps\n",
             show_frame(holders.front().where, 0),
             what.limit_bytes > 0 || what.address_bytes > 0 ? ", or a higher limit" : "",
             say_estimate(base_unit::bytes, row->kept, margin)) +
         python;
}

std::string most_held(const profile& p) {
  const memory_row* const row = p.memory.highest();
  if (row == nullptr) return "";
  std::vector<placed_memory> holders = held_by_place(p, *row);
  holders.resize(profiler::split_off_others(holders, 3, [row](const placed_memory& part) {
    return std::pair{part.bytes, std::max(profiler::margin_of(part.variance), 0.1 * row->sum())};
  }));
  std::string text;
  for (const placed_memory& one : holders) {
    text += fmt::format("{}{} {}", text.empty() ? "  at the live peak it was held by " : ", ",
                        say_estimate(base_unit::bytes, one.bytes, profiler::margin_of(one.variance)),
                        show_frame(one.where, 0));
  }
  return text.empty() ? "" : text + " (in full: tarn show --by rss FILE)\n";
}

namespace {

std::string living_lines(const profile& p) {
  std::vector<profiler::place_row> places = profiler::places_of(p);
  std::stable_sort(places.begin(), places.end(),
                   [](const profiler::place_row& left, const profiler::place_row& right) {
                     return left.sum.live_bytes > right.sum.live_bytes;
                   });
  double all = 0;
  for (const profiler::place_row& one : places) all += one.sum.live_bytes;
  if (all <= 0) return "  what lived at the end is not known: no sample was taken of it\n";
  std::string text = fmt::format("  what lived at the end, {}, by place:\n", say_bytes(all));
  for (std::size_t index = 0; index < std::min(places.size(), most_growing); ++index) {
    const profiler::place_row& one = places[index];
    const double margin = profiler::margin_of(profiler::live_bytes_variance(one.sum));
    if (index > 0 && one.sum.live_bytes < least_held * all) break;
    text += held_line(say_estimate(base_unit::bytes, one.sum.live_bytes, margin, all),
                      say_share(one.sum.live_bytes, all, margin, all), show_frame(one.where, 0));
    text += hint_line(p, one.where, 30);
  }
  return text;
}

}  // namespace

std::string render_death(const profile& p, const trouble& what) {
  const bool says_who_lives = p.memory.rows.empty() || has_unknown_untouched(p, p.memory.rows.back());
  return (p.memory.rows.empty() ? "" : render_held(p, p.memory.rows.back())) +
         (says_who_lives ? living_lines(p) : "") +
         (what.growth && what.growth->is_live ? growing_lines(p, *what.growth) : "");
}

std::string render_trouble(const profile& p, const trouble& what) {
  std::string text = profiler::sentence_of(what) + "\n";
  if (!what.is_memory()) return text;
  if (what.kind == trouble_kind::growth && what.growth->is_live) return text + growing_lines(p, *what.growth);
  const memory_row* const row = what.kind == trouble_kind::growth
                                    ? (p.memory.rows.empty() ? nullptr : &p.memory.rows.back())
                                    : reading_for(p, what);
  return row == nullptr ? text : text + render_held(p, *row);
}

}  // namespace tarn::cli
