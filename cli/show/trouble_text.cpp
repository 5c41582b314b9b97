// SPDX-License-Identifier: MIT
#include "cli/show/trouble_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
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

std::string held_line(const std::string& bytes, const std::string& share, const std::string& text) {
  return fmt::format("  {}\t{}\t{}\n", pad_left(bytes, 14), pad_left(share, 6), text);
}

std::string part_line(double bytes, const memory_row& row, const std::string& text, double variance = 0) {
  if (bytes <= 0) return "";
  const double margin = profiler::margin_of(variance);
  return held_line(say_estimate(base_unit::bytes, bytes, margin), say_share(bytes, row.sum(), margin), text);
}

std::string held_places(const profile& p, const memory_row& row, const char* kind_name) {
  std::vector<placed_memory> parts = placed_parts(p, row, profiler::kind_named(kind_name));
  const std::size_t shown =
      profiler::split_off_others(parts, most_holders, [&row](const placed_memory& part) {
        return std::pair{part.bytes, std::max(profiler::margin_of(part.variance), least_held * row.sum())};
      });
  std::string text;
  placed_memory others;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const placed_memory& part = parts[index];
    if (index < shown) {
      text += part_line(part.bytes, row, "  " + show_frame(part.where, 0), part.variance);
      text += hint_line(p, part.where, 30);
      continue;
    }
    others.bytes += part.bytes;
    others.variance += part.variance;
  }
  if (others.bytes < least_held * row.sum()) return text;
  return text +
         part_line(others.bytes, row, fmt::format("  others ({})", parts.size() - shown), others.variance);
}

// What malloc keeps: what lies among live blocks, and the rest, where that is known.
std::string kept_lines(const profile& p, const memory_row& row) {
  double cached = 0;
  bool is_known = false;
  for (const placed_memory& part : placed_parts(p, row, profiler::kind_named("kept"))) {
    is_known = true;
    if (part.where.function == profiler::pinned_by_nobody) cached += part.bytes;
  }
  if (!is_known) return part_line(row.kept, row, text_of(profiler::kind_named("kept"), p));
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
  const double sample_bytes = profiler::number_in(p.meta, "sample_bytes");
  const auto margin = [sample_bytes](const profiler::place_row& one) {
    return 1.96 * std::sqrt(sample_bytes * (one.sum.live_bytes + one.sum.earlier_live_bytes));
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
  std::string text = "  what grew, by place (all that lives: tarn show -m live_bytes FILE):\n";
  double others = 0;
  for (std::size_t index = 0; index < places.size(); ++index) {
    const profiler::place_row& one = places[index];
    if (index >= shown) {
      others += one.growth();
      continue;
    }
    text += fmt::format("  {}\t{}; {} live at the end\n",
                        pad_left("+" + say_estimate(base_unit::bytes, one.growth(), margin(one)), 15),
                        names[index], say_bytes(one.sum.live_bytes));
    text += hint_line(p, one.where, 22);
  }
  if (std::abs(others) >= least_held * what.bytes())
    text += fmt::format("  {}\tothers ({})\n", pad_left((others < 0 ? "" : "+") + say_bytes(others), 15),
                        profiler::say_places(places.size() - shown));
  return text;
}

}  // namespace

std::string render_held(const profile& p, const memory_row& row) {
  std::string text = fmt::format("  what was resident at {}, {} (in full: tarn show --by rss FILE):\n",
                                 say_time(static_cast<double>(row.time_ns)), say_bytes(row.sum()));
  text += part_line(row.live, row, "live blocks", row.live_variance) + held_places(p, row, "live");
  text += part_line(row.rounding, row, text_of(profiler::kind_named("rounding"), p));
  text +=
      part_line(row.mapped, row, text_of(profiler::kind_named("mapped"), p)) + held_places(p, row, "mapped");
  text += kept_lines(p, row) + outside_line(p, row) + part_line(row.recorder, row, "tarn's recorder");
  text += held_line(say_bytes(row.sum()), "100 %", "sum of all mappings");
  if (row.untouched >= 0.01 * row.sum())
    text += fmt::format("  not in the sum: {} of the live blocks, never touched\n", say_bytes(row.untouched));
  return text;
}

namespace {

// What live blocks and mappings hold, by place, the largest first.
std::vector<placed_memory> held_by_place(const profile& p, const memory_row& row) {
  std::vector<placed_memory> holders;
  for (const char* kind : {"live", "mapped"}) {
    const std::vector<placed_memory> parts = placed_parts(p, row, profiler::kind_named(kind));
    holders.insert(holders.end(), parts.begin(), parts.end());
  }
  std::stable_sort(holders.begin(), holders.end(), [](const placed_memory& left, const placed_memory& right) {
    return left.bytes > right.bytes;
  });
  return holders;
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
  if (row->kept >= much && row->kept >= 0.5 * row->sum()) {
    return fmt::format(
        "  {} of {} resident at {} were free, but kept by malloc: tarn run -- PROGRAM gives idle memory back\n",
        say_bytes(row->kept), say_bytes(row->sum()), say_time(static_cast<double>(row->time_ns)));
  }
  const std::vector<placed_memory> holders = held_by_place(p, *row);
  if (!what.is_memory() || holders.empty()) return "";
  const std::string python =
      holders.front().where.file.ends_with(".py") && row->mapped > row->live
          ? "  python keeps small objects in mappings of its own; with PYTHONMALLOC=malloc "
            "each has its place\n"
          : "";
  return fmt::format(
             "  what would help: to hold less in {}, or a higher limit; another malloc can save no more than the {} that malloc keeps\n",
             show_frame(holders.front().where, 0), say_bytes(row->kept)) +
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
  std::string text = fmt::format("  what lived at the end, {}, by place:\n", say_bytes(all));
  const double sample_bytes = profiler::number_in(p.meta, "sample_bytes");
  for (std::size_t index = 0; index < std::min(places.size(), most_growing); ++index) {
    const profiler::place_row& one = places[index];
    const double margin = profiler::margin_of(sample_bytes * one.sum.live_bytes);
    if (one.sum.live_bytes < least_held * all) break;
    text += held_line(say_estimate(base_unit::bytes, one.sum.live_bytes, margin),
                      say_share(one.sum.live_bytes, all, margin), show_frame(one.where, 0));
    text += hint_line(p, one.where, 30);
  }
  return text;
}

}  // namespace

std::string render_death(const profile& p, const trouble& what) {
  return (p.memory.rows.empty() ? living_lines(p) : render_held(p, p.memory.rows.back())) +
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
