// SPDX-License-Identifier: MIT
#include "cli/show/box_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

namespace {

using nlohmann::json;
using profiler::number_in;
using profiler::say_bytes;
using profiler::say_count;

constexpr double least_told = 1 << 20;
constexpr std::size_t most_named = 6;
constexpr std::size_t most_classes = 3;

double of_member(const json& engine, const char* metric, const std::string& member) {
  const json* const values = profiler::member_in(engine, metric);
  return values != nullptr && values->is_object() ? number_in(*values, member.c_str()) : 0;
}

std::vector<std::string> members_of(const json& engine, const char* metric) {
  std::vector<std::string> names;
  const json* const values = profiler::member_in(engine, metric);
  if (values == nullptr || !values->is_object()) return names;
  for (const auto& [name, value] : values->items()) names.push_back(name);
  return names;
}

struct named_memory {
  double bytes;
  std::string text;
};

std::vector<named_memory> all_named(const json& engine) {
  std::vector<named_memory> all;
  for (const std::string& name : members_of(engine, "tarn_scope_charged_bytes")) {
    const double budget = of_member(engine, "tarn_scope_budget_bytes", name);
    all.push_back({of_member(engine, "tarn_scope_charged_bytes", name),
                   fmt::format("scope {}: {} open{}", name,
                               say_count(of_member(engine, "tarn_scope_live_scopes", name)),
                               budget > 0 ? ", with a budget of " + say_bytes(budget) : "")});
  }
  for (const std::string& name : members_of(engine, "tarn_pool_bytes"))
    all.push_back({of_member(engine, "tarn_pool_bytes", name),
                   fmt::format("typed pool {}: {} objects live", name,
                               say_count(of_member(engine, "tarn_pool_live_objects", name)))});
  for (const std::string& name : members_of(engine, "tarn_recycler_idle_bytes"))
    all.push_back({of_member(engine, "tarn_recycler_idle_bytes", name),
                   fmt::format("recycler {}: {} idle objects", name,
                               say_count(of_member(engine, "tarn_recycler_idle_objects", name)))});
  for (const std::string& name : members_of(engine, "tarn_buffer_pool_live_bytes")) {
    const double live = of_member(engine, "tarn_buffer_pool_live_bytes", name);
    const double kept = of_member(engine, "tarn_buffer_pool_kept_bytes", name);
    all.push_back({live + kept, fmt::format("buffer pool {}: {} in use, {} idle", name, say_bytes(live),
                                            say_bytes(kept))});
  }
  std::stable_sort(all.begin(), all.end(), [](const named_memory& left, const named_memory& right) {
    return left.bytes > right.bytes;
  });
  return all;
}

std::string named_lines(const json& engine, const std::string& when) {
  const std::vector<named_memory> all = all_named(engine);
  std::string text;
  double others = 0;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (at < most_named && all[at].bytes >= least_told)
      text += fmt::format("  {}\t{}\n", pad_left(say_bytes(all[at].bytes), 14), all[at].text);
    else
      others += all[at].bytes;
  }
  if (text.empty()) return "";
  if (others >= least_told) text += fmt::format("  {}\tothers\n", pad_left(say_bytes(others), 14));
  return fmt::format("  memory that has a name, {}:\n", when) + text;
}

// "; most of it of 64 B, 1 KiB"
std::string classes_of_free(const json& engine) {
  std::vector<named_memory> classes;
  for (const std::string& size : members_of(engine, "tarn_class_free_bytes"))
    classes.push_back({of_member(engine, "tarn_class_free_bytes", size), size});
  std::stable_sort(classes.begin(), classes.end(), [](const named_memory& left, const named_memory& right) {
    return left.bytes > right.bytes;
  });
  std::string text;
  for (std::size_t at = 0; at < std::min(classes.size(), most_classes) && classes[at].bytes > 0; ++at)
    text += fmt::format("{}{} of {} bytes", text.empty() ? "; the most in blocks: " : ", ",
                        say_bytes(classes[at].bytes), classes[at].text);
  return text;
}

std::string free_line(const json& engine, const std::string& when) {
  const double pinned = number_in(engine, "tarn_span_free_bytes");
  const double dropped = std::min(pinned, number_in(engine, "tarn_span_dropped_bytes"));  // also of pools
  const double cached = number_in(engine, "tarn_cached_bytes");
  const double pages = number_in(engine, "tarn_free_dirty_bytes");
  if (pinned + cached + pages < least_told) return "";
  return fmt::format(
      "  free in malloc, {}: {} beside live blocks in the same spans{}, {} in caches, {} in pages to be given back{}\n",
      when, say_bytes(pinned),
      dropped >= least_told ? fmt::format(" (of {} the pages went back)", say_bytes(dropped)) : "",
      say_bytes(cached), say_bytes(pages), pinned >= least_told ? classes_of_free(engine) : "");
}

// Each row: seconds before the end, bytes used, and the limit.
std::string room_line(const json& rows) {
  std::vector<std::array<double, 3>> looks;
  for (const json& row : rows) {
    if (!row.is_array() || row.size() != 3) return "";
    std::array<double, 3> look{};
    for (std::size_t at = 0; at < look.size(); ++at)
      look[at] = row[at].is_number() ? row[at].get<double>() : 0;
    looks.push_back(look);
  }
  if (looks.size() < 2) return "";
  const auto& [seconds, first_used, first_limit] = looks.front();
  const auto& [end, last_used, last_limit] = looks.back();
  const std::string limit =
      first_limit == last_limit
          ? " of " + say_bytes(last_limit)
          : fmt::format("; the limit went from {} to {}", say_bytes(first_limit), say_bytes(last_limit));
  return fmt::format("  its control group in {} up to the last look: from {} to {}{}\n",
                     profiler::say_time(seconds * 1e9), say_bytes(first_used), say_bytes(last_used), limit);
}

}  // namespace

std::string render_box(const profiler::profile& p) {
  std::string text;
  if (const json* const engine = profiler::member_in(p.meta, "engine")) {
    const std::string when = "at " + profiler::say_time(number_in(p.meta, "engine_ns"));
    text = named_lines(*engine, when) + free_line(*engine, when);
    if (profiler::flag_in(p.meta, "engine_cut"))
      text += "  not all pools and scopes are told: the box has no room for the figures of so many\n";
  } else if (profiler::flag_in(p.meta, "core_file")) {
    text =
        "  not told: pools, buffers and scopes by name, which a core file does not have (a black box has them)\n";
  } else {
    text =
        "  not told: pools, buffers and scopes by name (written once a second, by the engine's background thread)\n";
  }
  if (const json* const rows = profiler::member_in(p.meta, "last_minutes")) text += room_line(*rows);
  return text;
}

}  // namespace tarn::cli
