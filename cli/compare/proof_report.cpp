// SPDX-License-Identifier: MIT
#include "cli/compare/proof_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/compare/comparison_report.hpp"
#include "cli/compare/proof_course.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

using profiler::proof_metric;
using profiler::proof_outcome;
using profiler::proof_way;
using profiler::proven_figure;

namespace {

struct shown_metric {
  proof_metric metric;
  const char* name;
  profiler::quantity (*show)(double);
};
constexpr shown_metric shown_metrics[] = {{proof_metric::cpu, "CPU time", show_seconds},
                                          {proof_metric::wall, "wall time", show_seconds},
                                          {proof_metric::rss, "peak RSS", show_bytes},
                                          {proof_metric::faults, "page faults", show_count}};

// Percent ("-12.3") below twice the value, otherwise the factor ("x 3.10").
std::string change(double ratio, const char* unit) {
  if (ratio >= 2) return fmt::format("x {:.2f}", ratio);
  return fmt::format("{:+.1f}{}", 100 * (ratio - 1), unit);
}

std::string change_cell(const proven_figure& figure, const char* unit = "") {
  // What is known to an order of magnitude is not known.
  const auto bound = [&](double ratio) {
    return ratio > 10 * figure.ratio || ratio < 0.1 * figure.ratio ? "?" : change(ratio, unit);
  };
  if (figure.confidence <= 0) return change(figure.ratio, unit);
  return fmt::format("{} ({} to {})", change(figure.ratio, unit), bound(figure.low), bound(figure.high));
}

style style_of(const proven_figure& figure) {
  if (figure.outcome == proof_outcome::none) return style::faint;
  return figure.outcome == proof_outcome::less ? style::good : style::bad;
}

bool has_figures(const proof_way& way) { return way.failure.empty(); }

std::string marked_cell(const proven_figure& figure) {
  return change_cell(figure) + (figure.outcome == proof_outcome::none ? " " : "*");
}

// The ways that have figures, one row each, with as many columns as fit into `width`. Names are shortened before a column is
// left out; CPU time and peak memory are left out last.
std::string render_ways(const profiler::proof& what, std::size_t width, bool colour) {
  constexpr std::string_view name_heading = "change in %";
  constexpr std::size_t least_name_columns = 16;
  std::vector<std::string> headings;
  for (const shown_metric& each : shown_metrics) headings.emplace_back(each.name);
  text_table table(headings);
  std::vector<std::string> names;
  std::size_t name_columns = name_heading.size();
  for (const proof_way& way : what.ways) {
    if (!has_figures(way)) continue;
    std::vector<table_cell> cells;
    for (const shown_metric& each : shown_metrics)
      cells.push_back({marked_cell(way.of(each.metric)), style_of(way.of(each.metric))});
    table.add(std::move(cells));
    names.push_back(way.name);
    name_columns = std::max(name_columns, display_width(way.name));
  }
  const std::size_t least = std::min(name_columns, least_name_columns) + 2;
  table.fit(width > least ? width - least : width, {0, 2, 1, 3});
  if (width != 0)
    name_columns =
        std::min(name_columns, std::max(least, width > table.width() ? width - table.width() : 0) - 2);
  std::string text =
      paint(pad_right(name_heading, name_columns + 2), style::bold, colour) + table.heading(colour) + "\n";
  for (std::size_t row = 0; row < names.size(); ++row)
    text +=
        pad_right(cut_in_middle(names[row], name_columns), name_columns + 2) + table.row(row, colour) + "\n";
  if (table.without_room().empty()) return text;
  return text + paint(fold(table.without_room() + ": widen the terminal, or use --json or | cat\n", width),
                      style::faint, colour);
}

// What the way's name stands for, where a malloc's name does not say it.
std::string meaning_of(const proof_way& way) {
  std::string text = way.name + ": " + way.headline;
  for (const auto& [name, value] : way.variables) text += fmt::format(" ({}={})", name, value);
  return text + "\n";
}

bool is_malloc(const proof_way& way) {
  return way.kind == profiler::kind_name(profiler::advice_kind::allocator);
}

// The advised ways that save significantly in `metric`, largest saving first.
std::vector<const proof_way*> gaining(const profiler::proof& what, proof_metric metric) {
  std::vector<const proof_way*> ways;
  for (const proof_way& way : what.ways) {
    if (has_figures(way) && way.kind != layer_kind && way.of(metric).outcome == proof_outcome::less)
      ways.push_back(&way);
  }
  std::stable_sort(ways.begin(), ways.end(), [metric](const proof_way* a, const proof_way* b) {
    return a->of(metric).ratio < b->of(metric).ratio;
  });
  return ways;
}

std::string say_saved(const proof_way& way, proof_metric metric) {
  const proven_figure& figure = way.of(metric);
  const auto saved = [&figure](double ratio) {
    return profiler::say_time(1e9 * figure.before * (1 - ratio));
  };
  return fmt::format("{} saves {} ({} to {}), {}", way.name, saved(figure.ratio), saved(figure.high),
                     saved(figure.low), profiler::say_share(1 - figure.ratio));
}

std::string other_ways(const std::vector<const proof_way*>& ways, proof_metric metric) {
  std::string text;
  for (std::size_t index = 1; index < ways.size(); ++index) {
    text += fmt::format("{}{} {}", index == 1 ? "; also " : ", ", ways[index]->name,
                        profiler::say_share(1 - ways[index]->of(metric).ratio));
  }
  return text;
}

std::vector<const proof_way*> decided_as(const profiler::proof& what, profiler::proof_decision decision) {
  std::vector<const proof_way*> ways;
  for (const proof_way& way : what.ways) {
    if (has_figures(way) && way.kind != layer_kind && way.decision == decision) ways.push_back(&way);
  }
  return ways;
}

// A way that was decided before the last of `rounds` does not have figures of the same rounds as the others.
std::string named_changes(const std::vector<const proof_way*>& ways, int rounds) {
  std::vector<std::string> parts;
  for (const proof_way* way : ways) {
    const proven_figure& cpu = way->of(proof_metric::cpu);
    const bool has_factor = std::max(cpu.ratio, cpu.confidence > 0 ? cpu.high : 0) >= 2;
    parts.push_back(way->name + " " + (has_factor ? change_cell(cpu, " %") : change_cell(cpu) + " %"));
    if (way->rounds < rounds) parts.back() += " (" + rounds_in_words(way->rounds) + ")";
  }
  return join(parts, ", ");
}

// What is known of the ways that do not save, a sentence for each decision.
void add_others(const profiler::proof& what, std::vector<std::string>& lines) {
  using profiler::proof_decision;
  const auto add = [&](proof_decision decision, const std::string& sentence, const std::string& end) {
    if (const auto ways = decided_as(what, decision); !ways.empty())
      lines.push_back(sentence + ": " + named_changes(ways, what.rounds) + end);
  };
  add(proof_decision::undecided, "Undecided after " + rounds_in_words(what.rounds),
      ". More time decides more: tarn prove --for SECONDS FILE");
  add(proof_decision::no_gain,
      fmt::format("Saves less than {:.0f} %, if anything", 100 * profiler::worthwhile_change), "");
  add(proof_decision::costs, "Takes more CPU time", "");
  add(proof_decision::behind, "Not measured further, as others took less in the rounds before", "");
}

void add_layer(const profiler::proof& what, std::vector<std::string>& lines) {
  for (const proof_way& way : what.ways) {
    if (way.layered_ratio <= 0 || !has_figures(way)) continue;
    const proven_figure& cpu = way.of(proof_metric::cpu);
    if (way.layer_seconds <= 0) {
      lines.push_back(fmt::format(
          "{}: the cost of the layer for pools is within noise; nothing is subtracted", way.name));
      continue;
    }
    lines.push_back(
        fmt::format("{}: CPU time {} with the layer for pools, {} without; the layer itself takes {}, "
                    "which is subtracted",
                    way.name, change(way.layered_ratio, " %"), change(cpu.ratio, " %"),
                    profiler::say_time(1e9 * way.layer_seconds)));
  }
}

}  // namespace

std::string render_proof(const proof_result& result, bool colour, std::size_t width) {
  const profiler::proof& what = result.proven;
  if (what.ways.empty()) return {};
  // Of the way with the most rounds: what a way knows of the unchanged program is of its own rounds.
  const auto unchanged =
      std::max_element(what.ways.begin(), what.ways.end(), [](const proof_way& a, const proof_way& b) {
        return std::pair{has_figures(a), a.rounds} < std::pair{has_figures(b), b.rounds};
      });
  std::string text;
  if (has_figures(*unchanged)) {
    text = "unchanged:";
    for (const shown_metric& each : shown_metrics) {
      text += fmt::format(" {} {}{}", each.show(unchanged->of(each.metric).before).text, each.name,
                          each.metric == proof_metric::faults ? "\n\n" : ",");
    }
    text = fold(text, width) + render_ways(what, width, colour);
  }
  std::string notes =
      rounds_in_words(what.rounds) +
      " in random order; in brackets: bounds, each with 95 % for all ways and looks together; "
      "*: 1 % or more\n";
  for (const proof_way& way : what.ways) {
    if (!is_malloc(way)) notes += meaning_of(way);
  }
  notes += fmt::format("duration: {}; one run of the unchanged program takes {}\n",
                       profiler::say_seconds(what.seconds), profiler::say_seconds(result.program_seconds));
  text += paint(fold(notes, width), style::faint, colour);
  return text;
}

std::vector<std::string> render_proof_verdict(const profiler::proof& what) {
  std::vector<std::string> lines;
  const auto cpu = gaining(what, proof_metric::cpu);
  const auto wall = gaining(what, proof_metric::wall);
  if (!std::any_of(what.ways.begin(), what.ways.end(), has_figures)) {
    lines.emplace_back(what.ways.empty()
                           ? "Verdict: there is nothing to measure."
                           : "Verdict: nothing was measured, as no way works for this program.");
  } else if (!cpu.empty()) {
    lines.push_back("Verdict: " + say_saved(*cpu.front(), proof_metric::cpu) + " of CPU time" +
                    other_ways(cpu, proof_metric::cpu) + ".");
  } else if (decided_as(what, profiler::proof_decision::undecided).empty()) {
    lines.emplace_back(decided_as(what, profiler::proof_decision::behind).empty()
                           ? "Verdict: no gain; no way takes less CPU time."
                           : "Verdict: no gain; no way that was measured to the end takes less CPU time.");
  } else {
    lines.emplace_back("Verdict: undecided; no way is known to take less CPU time.");
  }
  if (!wall.empty())
    lines.push_back(say_saved(*wall.front(), proof_metric::wall) + " of wall time" +
                    other_ways(wall, proof_metric::wall) + ".");
  const auto rss = gaining(what, proof_metric::rss);
  if (!rss.empty()) {
    const proven_figure& figure = rss.front()->of(proof_metric::rss);
    lines.push_back(fmt::format("{} takes {} less memory at its peak, {}{}.", rss.front()->name,
                                profiler::say_bytes(figure.before * (1 - figure.ratio)),
                                profiler::say_share(1 - figure.ratio), other_ways(rss, proof_metric::rss)));
  }
  add_others(what, lines);
  add_layer(what, lines);
  return lines;
}

std::string render_proven_advice(const std::vector<profiler::advice>& advised) {
  std::string text;
  for (std::size_t index = 0; index < advised.size(); ++index) {
    const profiler::advice& one = advised[index];
    if (one.grade == profiler::advice_grade::counted || one.grade == profiler::advice_grade::open) continue;
    text += fmt::format("advice {}: {}: {}\n", index + 1, one.headline, say_figures(one));
  }
  return text;
}

nlohmann::json as_json(const proof_result& result) {
  nlohmann::json object = profiler::as_json(result.proven);
  nlohmann::json words = nlohmann::json::array();
  for (const std::string& word : result.command.words) words.push_back(word);
  object["command"] = std::move(words);
  object["directory"] = result.command.directory;
  object["program_seconds"] = result.program_seconds;
  object["notes"] = result.notes;
  object["verdict"] = render_proof_verdict(result.proven);
  object["runs"] = as_json(result.outcome)["contenders"];
  return object;
}

}  // namespace tarn::cli
