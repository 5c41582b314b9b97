// SPDX-License-Identifier: MIT
#include "cli/views/profile_views.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/analyze/places.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/memory_split.hpp"

namespace tarn::cli {
namespace {

using profiler::memory_part;
using profiler::memory_row;
using profiler::profile;
using profiler::say_bytes;

struct pinned_place {
  profiler::source_frame where;
  double pinned = 0;
  double live = 0;
  double live_bytes = 0;
};

struct pinned_places {
  std::vector<pinned_place> places;  // the largest first
  double total = 0;                  // pinned by all places
  double by_nobody = 0;
};

pinned_places places_of(const profile& p, const memory_row& row) {
  std::map<profiler::place_key, pinned_place> by_place;
  pinned_places all;
  for (const memory_part& part : p.memory.parts) {
    if (part.time_ns != row.time_ns || part.kind != "kept") continue;
    if (part.site == 0 || part.site > p.sites.size()) {
      (part.name == profiler::pinned_by_nobody ? all.by_nobody : all.total) += part.bytes;
      continue;
    }
    const profiler::site& site = p.sites[part.site - 1];
    profiler::source_frame where = site_label(p, site);
    pinned_place& place = by_place[key_of(p, where)];
    place.where = std::move(where);
    place.pinned += part.bytes;
    place.live += site.figures.live;
    place.live_bytes += site.figures.live_bytes;
    all.total += part.bytes;
  }
  for (auto& [key, place] : by_place) all.places.push_back(std::move(place));
  std::stable_sort(all.places.begin(), all.places.end(),
                   [](const pinned_place& a, const pinned_place& b) { return a.pinned > b.pinned; });
  return all;
}

// What would help, where the figures say so: the blocks pin several times their own size, and much of it. "": nothing.
std::string help_for(const pinned_place& place, double total) {
  constexpr double least_bytes = 1 << 20;
  constexpr double least_share = 0.05;
  constexpr double least_ratio = 4;
  constexpr double largest_pooled = 2048;
  if (place.live <= 0 || place.pinned < least_bytes || place.pinned < least_share * total ||
      place.pinned < least_ratio * place.live_bytes) {
    return "";
  }
  // A pool's spans are full, but for the last one.
  const double packed = place.live_bytes * 1.02 + 64 * 1024;
  if (place.live_bytes / place.live > largest_pooled)
    return "allocate them before the short-lived blocks, or in a scope of their own";
  return fmt::format("a pool of its own: these blocks then take {}, and what they pin can go back",
                     say_bytes(packed));
}

bool matches(const pinned_place& place, const std::string& filter) {
  return filter.empty() || place.where.function.find(filter) != std::string::npos ||
         place.where.file.find(filter) != std::string::npos;
}

void print(const pinned_places& all, std::size_t most) {
  const bool colour = wants_colour(STDOUT_FILENO);
  text_table table({"pinned", "share", "live blocks", "live bytes"});
  double shown = 0;
  const std::size_t count = std::min(most, all.places.size());
  for (std::size_t i = 0; i < count; ++i) {
    const pinned_place& place = all.places[i];
    shown += place.pinned;
    table.add({say_bytes(place.pinned), profiler::say_share(place.pinned, all.total),
               profiler::say_count(place.live), say_bytes(place.live_bytes)});
  }
  fmt::print("{}\n", table.heading(colour, "where"));
  for (std::size_t i = 0; i < count; ++i) {
    const pinned_place& place = all.places[i];
    fmt::print("{}\n", table.row(i, colour, show_frame(place.where, room_beside(table.width()))));
    const std::string help = help_for(place, all.total);
    if (!help.empty()) print_text(fmt::format("{}would help: {}\n", std::string(table.width(), ' '), help));
  }
  print_text(paint(
      fmt::format("{} of {} places: {} of {} pinned; {} near no live block (caches, malloc's own data, "
                  "not given back yet)\n",
                  count, all.places.size(), say_bytes(shown), say_bytes(all.total), say_bytes(all.by_nobody)),
      style::faint, colour));
}

void print_json(const pinned_places& all, const memory_row& row, std::size_t most) {
  const std::size_t count = std::min(most, all.places.size());
  print_json_rows({{"by", "pinned"},
                   {"time_ns", row.time_ns},
                   {"resident_bytes", row.resident_bytes},
                   {"pinned_bytes", all.total},
                   {"near_no_block_bytes", all.by_nobody}},
                  "sites", count, [&](std::size_t i) {
                    const pinned_place& place = all.places[i];
                    return nlohmann::json{{"function", place.where.function},
                                          {"file", place.where.file},
                                          {"line", place.where.line},
                                          {"pinned_bytes", place.pinned},
                                          {"live", place.live},
                                          {"live_bytes", place.live_bytes},
                                          {"would_help", help_for(place, all.total)}};
                  });
}

}  // namespace

int show_pinned(const view_request& asked) {
  const profile p = load_for_command(asked.path, asked.process, profiler::profile_detail::figures);
  const bool has_parts = std::any_of(p.memory.parts.begin(), p.memory.parts.end(),
                                     [](const memory_part& part) { return part.kind == "kept"; });
  // Without a live block there is no part.
  if (p.memory.rows.empty() || (!has_parts && p.mode != profiler::profile_mode::full)) {
    throw cli_error(exit_code::refused, asked.path + ": it does not tell which blocks pin memory",
                    p.meta.contains("processes")
                        ? "It is a merged profile. Use the file of one process."
                        : "All blocks must be known: record it with tarn profile --mode full.");
  }
  pinned_places all = places_of(p, p.memory.rows.back());
  std::erase_if(all.places, [&asked](const pinned_place& place) { return !matches(place, asked.filter); });
  if (asked.json) {
    print_json(all, p.memory.rows.back(), asked.most_rows(20));
  } else {
    print(all, asked.most_rows(20));
  }
  return exit_code::success;
}

}  // namespace tarn::cli
