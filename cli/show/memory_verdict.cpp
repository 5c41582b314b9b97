// SPDX-License-Identifier: MIT
#include "cli/show/memory_verdict.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/memory_kinds.hpp"
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

}  // namespace tarn::cli
