// SPDX-License-Identifier: MIT
// What the resident memory of a whole process consisted of: malloc's blocks by site, memory that malloc kept, the program's own
// mappings, files, stacks and others. A row (memory_row) is one reading of /proc/PID/smaps. Its kinds add up to sum(), which the text
// calls resident; resident_bytes is VmRSS, read just before. The profile has sites and files only for the row of the peak,
// which is that with most memory in use, and for the last one.
#include "cli/views/profile_views.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/analyze/memory_kinds.hpp"
#include "profiler/analyze/places.hpp"
#include "profiler/analyze/trouble.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

using profiler::memory_kind;
using profiler::memory_kinds;
using profiler::memory_row;
using profiler::placed_memory;
using profiler::profile;

std::string say_part(double bytes, double variance, double most = HUGE_VAL) {
  return profiler::say_estimate(profiler::base_unit::bytes, bytes, profiler::margin_of(variance), most);
}

// With room for a margin, if there is one.
std::size_t bytes_columns(const memory_row& row) { return row.live_variance > 0 ? 15 : 10; }

// The places or files of a kind; those that may be nothing, and those beyond `most`, as one.
void print_parts(const profile& p, const memory_row& row, const memory_kind& kind, std::size_t most) {
  const std::size_t columns = bytes_columns(row);
  const double whole = most_of(row, kind);
  std::vector<placed_memory> parts = placed_parts(p, row, kind);
  const std::size_t shown = profiler::split_off_others(parts, most, [](const placed_memory& part) {
    return std::pair{part.bytes, profiler::margin_of(part.variance)};
  });
  const std::size_t left = room_beside(12 + columns + 2);
  placed_memory others;
  const auto print = [columns](const std::string& bytes, const std::string& text) {
    fmt::print("{}{}  {}\n", std::string(12, ' '), pad_left(bytes, columns), text);
  };
  for (std::size_t index = 0; index < parts.size(); ++index) {
    if (index >= shown) {
      others.bytes += parts[index].bytes;
      others.variance += parts[index].variance;
      continue;
    }
    print(say_part(parts[index].bytes, parts[index].variance, whole), show_frame(parts[index].where, left));
    print_text(hint_line(p, parts[index].where, 14));
  }
  if (shown < parts.size())
    print(say_part(others.bytes, others.variance, whole), fmt::format("others ({})", parts.size() - shown));
}

// Of the kind's bytes. What no sample knows is a difference to what they know.
double variance_of(const profile& p, const memory_row& row, const memory_kind& kind) {
  const bool is_difference = kind.member == &memory_row::kept && placed_parts(p, row, kind).empty();
  return kind.member == &memory_row::live || is_difference ? row.live_variance : 0;
}

void print_split(const profile& p, const memory_row& row, std::size_t most, bool colour) {
  const profiler::trouble what = profiler::trouble_of(p);
  const std::string limit =
      what.limit_bytes > 0 ? "; limit of the control group " + profiler::say_bytes(what.limit_bytes) : "";
  print_text(paint(
      fmt::format("resident {} at {}; {} {} at the peak{}\n", profiler::say_bytes(row.sum()),
                  profiler::say_time(static_cast<double>(row.time_ns)),
                  what.is_peak_exact ? "exactly" : "at least", profiler::say_bytes(what.peak_bytes), limit),
      style::bold, colour));
  for (const memory_kind& kind : memory_kinds) {
    const double bytes = row.*kind.member;
    if (bytes <= 0) continue;
    const double variance = variance_of(p, row, kind);
    print_text(fmt::format("{}  {}  {}\n", pad_left(say_part(bytes, variance), bytes_columns(row)),
                           pad_left(profiler::say_share(bytes, row.sum(), profiler::margin_of(variance)), 7),
                           paint(text_of(kind, p), style::bold, colour)));
    print_parts(p, row, kind, most);
  }
  fmt::print("{}  {}  sum of all mappings\n", pad_left(profiler::say_bytes(row.sum()), bytes_columns(row)),
             pad_left("100 %", 7));
  if (row.untouched > 0)
    fmt::print("{}  {}  not in the sum: of the live blocks, never touched\n",
               pad_left(profiler::say_bytes(row.untouched), bytes_columns(row)), pad_left("", 7));
}

void print_over_time(const profile& p, bool colour) {
  std::vector<std::string> headings = {"time", "resident"};
  for (const memory_kind& kind : memory_kinds) headings.emplace_back(kind.name);
  text_table table(std::move(headings));
  for (const memory_row& row : p.memory.rows) {
    std::vector<std::string> cells = {profiler::say_time(static_cast<double>(row.time_ns)),
                                      profiler::say_bytes(row.sum())};
    for (const memory_kind& kind : memory_kinds)
      cells.push_back(say_part(row.*kind.member, variance_of(p, row, kind)));
    table.add(cells);
  }
  table.fit(terminal_width(STDOUT_FILENO));
  fmt::print("{}", table.text(colour));
  const std::string left_out = table.without_room();
  if (!left_out.empty()) print_text(paint(left_out + " (--json, or | less -S)\n", style::faint, colour));
}

nlohmann::json row_json(const memory_row& row) {
  nlohmann::json one = {{"time_ns", row.time_ns},
                        {"resident_bytes", row.resident_bytes},
                        {"sum", row.sum()},
                        {"live_margin", profiler::margin_of(row.live_variance)},
                        {"untouched", row.untouched}};
  for (const memory_kind& kind : memory_kinds) one[kind.name] = row.*kind.member;
  return one;
}

void print_json(const profile& p, const memory_row& row, std::size_t most) {
  const profiler::trouble what = profiler::trouble_of(p);
  nlohmann::json all = {{"peak_resident_bytes", what.peak_bytes},
                        {"memory_limit_bytes", what.limit_bytes},
                        {"peak_exact", what.is_peak_exact}};
  all["at"] = row_json(row);
  all["parts"] = nlohmann::json::object();
  for (const memory_kind& kind : memory_kinds) {
    nlohmann::json parts = nlohmann::json::array();
    for (const placed_memory& part : placed_parts(p, row, kind)) {
      if (parts.size() == most) break;
      parts.push_back({{"name", show_frame(part.where, 0)},
                       {"bytes", part.bytes},
                       {"margin", profiler::margin_of(part.variance)}});
    }
    if (!parts.empty()) all["parts"][kind.name] = std::move(parts);
  }
  all["over_time"] = nlohmann::json::array();
  for (const memory_row& each : p.memory.rows) all["over_time"].push_back(row_json(each));
  print_json_object(all);
}

void require_memory(const profile& p, const std::string& path) {
  if (!p.memory.rows.empty()) return;
  const std::string problem = path + ": it does not contain what the resident memory consisted of";
  if (p.meta.contains("processes")) {
    throw cli_error(
        exit_code::refused, problem,
        "It is a merged profile. Its processes had their peaks at different times and count shared "
        "pages several times, so their parts cannot be added. Give the file of one process.");
  }
  if (!profiler::has_costs(p)) {
    throw cli_error(
        exit_code::refused, problem,
        fmt::format("It is of {}. tarn run --black-box DIR reads it from outside while the program runs.",
                    profiler::origin_of(p)));
  }
  throw cli_error(exit_code::refused, problem,
                  "The program ended at once, or tarn was not allowed to read its /proc/PID/smaps. Record it "
                  "again, as the program's user.");
}

}  // namespace

int show_resident(const view_request& asked) {
  const std::size_t most = asked.most_rows(5);
  const profile p = load_for_command(asked.path, "", profiler::profile_detail::figures);
  require_memory(p, asked.path);
  const memory_row& row = asked.at == "end" ? p.memory.rows.back() : *p.memory.highest();
  if (asked.json) {
    print_json(p, row, most);
  } else if (asked.over_time) {
    print_over_time(p, wants_colour(STDOUT_FILENO));
  } else {
    print_split(p, row, most, wants_colour(STDOUT_FILENO));
  }
  return exit_code::success;
}

}  // namespace tarn::cli
