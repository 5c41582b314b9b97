// SPDX-License-Identifier: MIT
#include "cli/views/profile_views.hpp"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/recording/leak_suppressions.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

namespace {

using profiler::profile;
using profiler::site;
using profiler::site_figures;
using profiler::source_frame;

struct leak_line {
  const site* who;
  std::string suppressed_by;
};

// A sampled block counts as one at least, so that less is the rounding of sums.
bool is_any(double blocks) { return blocks >= 0.5; }

struct leak_sums {
  site_figures shown;
  site_figures suppressed;
};

void add_live(site_figures& sum, const site_figures& more) {
  for (double site_figures::*member :
       {&site_figures::live, &site_figures::live_bytes, &site_figures::lost, &site_figures::lost_bytes,
        &site_figures::indirect, &site_figures::indirect_bytes}) {
    sum.*member += more.*member;
  }
}

std::vector<leak_line> lines_of(const profile& p, const leak_suppressions& suppressions, bool with_reachable,
                                leak_sums& sums) {
  std::vector<leak_line> lines;
  for (const site& one : p.sites) {
    const site_figures& figures = one.figures;
    const bool is_lost = is_any(figures.lost) || is_any(figures.indirect);
    leak_line line{&one, is_lost ? suppressions.match(p, one) : ""};
    add_live(line.suppressed_by.empty() ? sums.shown : sums.suppressed, figures);
    if (!line.suppressed_by.empty() || !(is_lost || (with_reachable && is_any(figures.live)))) continue;
    lines.push_back(std::move(line));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const leak_line& left, const leak_line& right) {
    const site_figures& a = left.who->figures;
    const site_figures& b = right.who->figures;
    if (a.lost_bytes != b.lost_bytes) return a.lost_bytes > b.lost_bytes;
    if (a.indirect_bytes != b.indirect_bytes) return a.indirect_bytes > b.indirect_bytes;
    return a.live_bytes > b.live_bytes;
  });
  return lines;
}

std::vector<source_frame> frames_of(const profile& p, const leak_line& line) {
  std::vector<source_frame> frames = profiler::frames_of(p, line.who->stack);
  if (frames.empty()) frames.push_back(profiler::site_label(p, *line.who));
  return frames;
}

std::string show_blocks(double blocks, double bytes) {
  return fmt::format("{} block{} of {}", profiler::say_count(blocks), std::round(blocks) == 1 ? "" : "s",
                     profiler::say_bytes(bytes));
}

void print_lines(const profile& p, const std::vector<leak_line>& lines, bool known, bool colour) {
  text_table table(known
                       ? std::vector<std::string>{"lost", "bytes", "indirect", "bytes", "reachable", "bytes"}
                       : std::vector<std::string>{"live", "bytes"});
  for (const leak_line& line : lines) {
    const site_figures& f = line.who->figures;
    std::vector<std::string> row;
    const auto put = [&row](double blocks, double bytes) {
      row.push_back(is_any(blocks) ? profiler::say_count(blocks) : "-");
      row.push_back(is_any(blocks) ? profiler::say_bytes(bytes) : "-");
    };
    if (known) {
      put(f.lost, f.lost_bytes);
      put(f.indirect, f.indirect_bytes);
      put(std::max(0.0, f.live - f.lost - f.indirect),
          std::max(0.0, f.live_bytes - f.lost_bytes - f.indirect_bytes));
    } else {
      put(f.live, f.live_bytes);
    }
    table.add(row);
  }
  const std::vector<std::string> places = show_paths(
      lines.size(), [&](std::size_t index) { return frames_of(p, lines[index]); },
      room_beside(table.width()));
  fmt::print("{}\n", table.heading(colour, "where"));
  for (std::size_t index = 0; index < table.rows(); ++index)
    fmt::print("{}\n", table.row(index, colour, places[index]));
}

// Estimates, of blocks and bytes that are whole.
std::int64_t whole(double value) { return std::llround(value); }

nlohmann::json blocks_json(double blocks, double bytes) {
  return {{"blocks", whole(blocks)}, {"bytes", whole(bytes)}};
}

nlohmann::json row_json(const profile& p, const leak_line& line, bool known) {
  const std::vector<source_frame> path = frames_of(p, line);
  const source_frame& where = path[profiler::own_frame(path)];
  const site_figures& f = line.who->figures;
  nlohmann::json frames = nlohmann::json::array();
  for (const source_frame& frame : path)
    frames.push_back({{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
  nlohmann::json row = {{"function", where.function},
                        {"file", where.file},
                        {"line", where.line},
                        {"type", line.who->type},
                        {"live", whole(f.live)},
                        {"live_bytes", whole(f.live_bytes)},
                        {"frames", frames}};
  row["lost"] = known ? nlohmann::json(whole(f.lost)) : nullptr;
  row["lost_bytes"] = known ? nlohmann::json(whole(f.lost_bytes)) : nullptr;
  row["indirect"] = known ? nlohmann::json(whole(f.indirect)) : nullptr;
  row["indirect_bytes"] = known ? nlohmann::json(whole(f.indirect_bytes)) : nullptr;
  return row;
}

void print_json(const profile& p, const std::vector<leak_line>& lines, const leak_sums& sums, bool known,
                const std::string& reason) {
  nlohmann::json head = {{"known", known},
                         {"reason", reason},
                         {"mode", p.meta.value("mode", nlohmann::json())},
                         {"live", blocks_json(sums.shown.live + sums.suppressed.live,
                                              sums.shown.live_bytes + sums.suppressed.live_bytes)}};
  if (known) {
    head["lost"] = blocks_json(sums.shown.lost, sums.shown.lost_bytes);
    head["indirect"] = blocks_json(sums.shown.indirect, sums.shown.indirect_bytes);
    head["suppressed"] = blocks_json(sums.suppressed.lost + sums.suppressed.indirect,
                                     sums.suppressed.lost_bytes + sums.suppressed.indirect_bytes);
  }
  print_json_rows(head, "sites", lines.size(),
                  [&](std::size_t index) { return row_json(p, lines[index], known); });
}

void print_summary(const profile& p, const leak_sums& sums, bool known, bool colour) {
  const double live = sums.shown.live + sums.suppressed.live;
  const double live_bytes = sums.shown.live_bytes + sums.suppressed.live_bytes;
  if (!known) {
    fmt::print("{}\n",
               paint(fmt::format("{} live at the end", show_blocks(live, live_bytes)), style::bold, colour));
    return;
  }
  std::string text = sums.shown.lost > 0
                         ? fmt::format("lost: {}", show_blocks(sums.shown.lost, sums.shown.lost_bytes))
                         : "nothing is lost";
  if (sums.shown.indirect > 0)
    text += fmt::format("; through them {}", show_blocks(sums.shown.indirect, sums.shown.indirect_bytes));
  const double suppressed = sums.suppressed.lost + sums.suppressed.indirect;
  if (suppressed > 0) {
    text += fmt::format("; suppressed: {}",
                        show_blocks(suppressed, sums.suppressed.lost_bytes + sums.suppressed.indirect_bytes));
  }
  text += fmt::format("; in all {} live at the end", show_blocks(live, live_bytes));
  print_text(paint(text + "\n", style::bold, colour));
  const nlohmann::json* leaks = profiler::member_in(p.meta, "leaks");
  const double threads = leaks != nullptr ? profiler::number_in(*leaks, "threads") : 0;
  if (threads > 0) {
    print_note(fmt::format(
        "{:.0f} other thread(s) ran at the end: the blocks that they used count as reachable", threads));
  }
}

// Why it is not known which blocks were reachable; empty: it is known.
std::string reason_in(const profile& p) {
  if (profiler::text_in(p.meta, "mode") == "sample") return "mode sample records only some of the blocks";
  const nlohmann::json* leaks = profiler::member_in(p.meta, "leaks");
  if (leaks == nullptr || !leaks->is_object())
    return "the file was written by a version of tarn that did not search for lost blocks";
  if (profiler::flag_in(*leaks, "known")) return "";
  const std::string reason = profiler::text_in(*leaks, "reason");
  return reason.empty() ? "the file does not contain the reason" : reason;
}

// What to do where it is not known; empty where another recording would not know it either.
std::string advice_in(const profile& p) {
  const bool another_knows = profiler::text_in(p.meta, "mode") != "full" ||
                             profiler::member_in(p.meta, "attached") != nullptr ||
                             profiler::member_in(p.meta, "leaks") == nullptr;
  return another_knows ? "Record every block, from the program's start: tarn profile --mode full -- PROGRAM"
                       : "";
}

}  // namespace

int show_leaks(const view_request& asked) {
  leak_suppressions suppressions;
  for (const std::string& file : asked.suppressions) suppressions.add_file(file);
  const profile p = load_for_command(asked.path, asked.process, profiler::profile_detail::figures);
  const std::string reason = reason_in(p);
  const bool known = reason.empty();
  leak_sums sums;
  std::vector<leak_line> lines = lines_of(p, suppressions, asked.reachable || !known, sums);
  const std::size_t found = lines.size();
  lines.resize(std::min(found, asked.most_rows(20)));
  if (asked.json) {
    print_json(p, lines, sums, known, reason);
  } else {
    const bool colour = wants_colour(STDOUT_FILENO);
    print_summary(p, sums, known, colour);
    if (!lines.empty()) print_lines(p, lines, known, colour);
    if (lines.size() < found)
      fmt::print("{}\n",
                 paint(fmt::format("{} of {} places (--rows)", lines.size(), found), style::faint, colour));
  }
  if (!known) {
    print_error(cli_error(exit_code::refused, "which of these blocks were reachable is not known: " + reason,
                          advice_in(p)),
                false);
    return exit_code::refused;
  }
  return sums.shown.lost > 0 ? exit_code::results_differ : exit_code::success;
}

}  // namespace tarn::cli
