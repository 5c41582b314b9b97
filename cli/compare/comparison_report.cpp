// SPDX-License-Identifier: MIT
#include "cli/compare/comparison_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/compare/statistics.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text_table.hpp"

namespace tarn::cli {

namespace {

struct compared_metric {
  const char* name;
  const char* key;
  double run_figures::*value;
  profiler::quantity (*show)(double);
  const char* less;  // "fewer" or "less": the word for a smaller figure
  double smallest;   // differences below this share do not count
};

// Linker and page layout alone change time by about a percent.
constexpr double smallest_shown = 0.01;
const compared_metric compared_metrics[] = {
    {"wall time", "wall_seconds", &run_figures::wall_seconds, show_seconds, "less", smallest_shown},
    {"CPU time", "cpu_seconds", &run_figures::cpu_seconds, show_seconds, "less", smallest_shown},
    {"peak RSS", "peak_rss_bytes", &run_figures::peak_rss_bytes, show_bytes, "less", smallest_shown},
    {"page faults", "minor_faults", &run_figures::minor_faults, show_count, "fewer", smallest_shown},
    {"major faults", "major_faults", &run_figures::major_faults, show_count, "fewer", smallest_shown},
};

// The figure of a row and column. Everything reported about it, ratios included, is computed from the rounded
// number.
profiler::quantity median_of(const compared_metric& row, const contender_result& result) {
  return row.show(median(values_of(result.rounds, row.value)));
}

// Major faults are shown only if there are any.
bool is_shown(const compared_metric& row, const std::vector<const contender_result*>& columns) {
  if (std::string_view(row.key) != "major_faults") return true;
  return std::any_of(columns.begin(), columns.end(),
                     [&row](const contender_result* result) { return median_of(row, *result).value > 0; });
}

double best_median(const compared_metric& row, const std::vector<const contender_result*>& columns) {
  double best = median_of(row, *columns.front()).value;
  for (const contender_result* result : columns) best = std::min(best, median_of(row, *result).value);
  return best;
}

// "1.04 ±0.9 %": ratio to the best, and half the distance between the quartiles.
std::string ratio_and_spread(double middle, const std::vector<double>& values, double best) {
  if (middle <= 0) return "-";
  const std::string ratio = best > 0 ? fmt::format("{:.2f}", middle / best) : "-";
  const double spread = 100 * half_quartile_range(values) / middle;
  return fmt::format("{} \u00b1{:.{}f} %", ratio, spread, spread < 9.95 ? 1 : 0);
}

std::string percent(double ratio) {
  const double change = 100 * std::abs(ratio - 1);
  return change >= 9.95 ? fmt::format("{:.0f}", change) : fmt::format("{:.1f}", change);
}

// "12 % less (9.1 to 15) than jemalloc". From 2 on as a factor, as percentages above 100 are misleading.
std::string phrase(const pairwise_verdict& verdict, const compared_metric& row) {
  const judgement& judged = verdict.judged;
  if (judged.ratio >= 2) {
    return fmt::format("{:.1f} times ({:.1f} to {:.1f}) that of {}", judged.ratio, judged.low, judged.high,
                       verdict.other);
  }
  const bool less = judged.outcome == difference::less;
  return fmt::format("{} % {} ({} to {}) than {}", percent(judged.ratio), less ? row.less : "more",
                     percent(less ? judged.high : judged.low), percent(less ? judged.low : judged.high),
                     verdict.other);
}

std::string sentence(const compared_metric& row, const std::vector<pairwise_verdict>& verdicts) {
  std::vector<std::string> alike;
  std::vector<std::string> parts;
  std::string subject;
  for (const pairwise_verdict& verdict : verdicts) {
    if (verdict.metric != row.name) continue;
    subject = verdict.subject;
    if (verdict.judged.outcome == difference::none) {
      alike.push_back(verdict.other);
    } else {
      parts.push_back(phrase(verdict, row));
    }
  }
  if (!alike.empty()) parts.push_back("no difference beyond noise from " + join(alike, ", "));
  return fmt::format("{}, {}: {}", row.name, subject, join(parts, "; "));
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

std::string rounds_in_words(std::size_t rounds) {
  return fmt::format("{} round{}", rounds, rounds == 1 ? "" : "s");
}

double confidence_for(std::size_t comparisons) {
  // Bonferroni: all intervals of a row hold together with 95 %.
  return 1 - 0.05 / static_cast<double>(std::max<std::size_t>(1, comparisons));
}

}  // namespace

std::vector<const contender_result*> with_figures(const comparison_outcome& outcome) {
  std::vector<const contender_result*> found;
  for (const contender_result& result : outcome.results) {
    if (result.failure.empty() && !result.rounds.empty()) found.push_back(&result);
  }
  return found;
}

std::string libraries_of(const std::vector<const contender_result*>& columns) {
  std::vector<std::string> parts;
  for (const contender_result* result : columns) {
    if (result->who.library.empty()) continue;
    std::error_code ignored;
    const std::filesystem::path file = std::filesystem::canonical(result->who.library, ignored);
    parts.push_back(
        fmt::format("{}: {}", result->who.name, file.empty() ? result->who.library : file.string()));
  }
  return join(parts, "; ");
}

std::string subject_of(const comparison_outcome& outcome) {
  const auto columns = with_figures(outcome);
  for (const contender_result* result : columns) {
    if (result->who.name == tarn_name) return tarn_name;
  }
  return columns.empty() ? "" : columns.front()->who.name;
}

std::vector<pairwise_verdict> judge_all(const comparison_outcome& outcome) {
  const auto columns = with_figures(outcome);
  const std::string subject_name = subject_of(outcome);
  std::vector<pairwise_verdict> verdicts;
  for (const compared_metric& row : compared_metrics) {
    if (columns.empty() || !is_shown(row, columns)) continue;
    if (row.value == &run_figures::peak_rss_bytes && !outcome.doubt_about_peak().empty()) continue;
    const auto subject = std::find_if(columns.begin(), columns.end(), [&](const contender_result* result) {
      return result->who.name == subject_name;
    });
    for (const contender_result* other : columns) {
      if (other == *subject) continue;
      const double ratio = median_of(row, **subject).value / median_of(row, *other).value;
      verdicts.push_back({row.name, subject_name, other->who.name,
                          judge(values_of((*subject)->rounds, row.value), values_of(other->rounds, row.value),
                                ratio, confidence_for(columns.size() - 1), row.smallest)});
    }
  }
  return verdicts;
}

std::string render_table(const comparison_outcome& outcome, bool colour, std::size_t terminal) {
  const auto columns = with_figures(outcome);
  if (columns.empty()) return {};
  std::vector<std::string> headings = {""};
  for (const contender_result* result : columns) headings.push_back(result->who.name);
  text_table table(std::move(headings), {0});
  // Two lines each: the figures, and the ratios to the best with the spread.
  for (const compared_metric& row : compared_metrics) {
    if (!is_shown(row, columns)) continue;
    const double best = best_median(row, columns);
    std::vector<table_cell> figures = {{row.name}};
    std::vector<table_cell> below = {{}};
    for (const contender_result* result : columns) {
      const profiler::quantity middle = median_of(row, *result);
      const bool is_best = columns.size() > 1 && middle.value <= best;
      figures.push_back({middle.text, is_best ? style::good : style::plain});
      below.push_back(
          {ratio_and_spread(middle.value, values_of(result->rounds, row.value), best), style::faint});
    }
    table.add(std::move(figures));
    table.add(std::move(below));
  }
  std::string text;
  for (std::size_t first = 1; first <= columns.size();) {
    std::vector<std::size_t> wanted = {first, 0};
    for (std::size_t column = first + 1; column <= columns.size(); ++column) wanted.push_back(column);
    table.fit(terminal, wanted);
    text += table.text(colour);
    first += terminal == 0 ? columns.size() : std::max<std::size_t>(table.shown(), 2) - 1;
  }
  const std::string legend = fmt::format(
      "medians of {}; below each: ratio to the best of the row, \u00b1 half the interquartile range",
      rounds_in_words(columns.front()->rounds.size()));
  for (const std::string& line : {legend, libraries_of(columns)}) {
    if (!line.empty())
      text += paint(terminal == 0 ? line : wrap(line, terminal), style::faint, colour) + "\n";
  }
  return text;
}

std::vector<std::string> render_verdict(const comparison_outcome& outcome) {
  const auto columns = with_figures(outcome);
  if (columns.empty()) return {"Verdict: none; the program failed under every allocator, as said below."};
  if (columns.size() < 2) {
    return {fmt::format("Verdict: nothing to compare; only {} has figures.", columns.front()->who.name)};
  }
  const std::size_t rounds = columns.front()->rounds.size();
  if (rounds < fewest_judged_rounds)
    return {fmt::format("Verdict: none; {} cannot show a difference. More: -r 10", rounds_in_words(rounds))};
  const std::vector<pairwise_verdict> verdicts = judge_all(outcome);
  const auto decides = [](const pairwise_verdict& verdict) {
    return verdict.judged.outcome != difference::none;
  };
  const auto about = [&verdicts, &decides](std::string_view name) {
    return std::any_of(verdicts.begin(), verdicts.end(), [&](const pairwise_verdict& verdict) {
      return verdict.metric == name && decides(verdict);
    });
  };
  std::vector<std::string> lines;
  const bool judges_peak = outcome.doubt_about_peak().empty();
  if (!about("wall time") && !about("CPU time") && !about("peak RSS")) {
    lines.push_back(
        fmt::format("Verdict: no difference beyond noise, in time{}.", judges_peak ? " or in memory" : ""));
  } else {
    lines.emplace_back("Verdict");
    for (const compared_metric& row : compared_metrics) {
      const std::string_view name = row.name;
      // CPU time gets a sentence if its result differs from that of wall time.
      const bool told =
          name == "wall time" || (name == "peak RSS" && judges_peak) || (name == "CPU time" && about(name));
      if (told) lines.push_back("  " + sentence(row, verdicts));
    }
  }
  if (verdicts.front().judged.confidence <= 0) {
    lines.push_back(
        fmt::format("  {} are few: only large differences show. More: -r 10", rounds_in_words(rounds)));
  }
  return lines;
}

std::string render_failures(const comparison_outcome& outcome) {
  std::string text;
  const auto indented = [](const std::string& tail) { return "    | " + begin_lines(tail, "    | ") + "\n"; };
  for (const contender_result& result : outcome.results) {
    if (result.failure.empty()) continue;
    text += fmt::format("The program fails under {}: {}\n", result.who.name, result.failure);
    if (!result.error_tail.empty()) text += indented(result.error_tail);
  }
  if (outcome.usual_exit && *outcome.usual_exit != 0) {
    text += fmt::format(
        "The program fails under every allocator alike ({}), so it is the program or its arguments; "
        "the figures are those of the failing program. Accept its status with --ignore-failure.\n",
        format_exit(*outcome.usual_exit));
    if (!outcome.usual_error_tail.empty()) text += indented(outcome.usual_error_tail);
  }
  return text;
}

nlohmann::json as_json(const comparison_outcome& outcome) {
  nlohmann::json contenders = nlohmann::json::array();
  for (const contender_result& result : outcome.results) {
    nlohmann::json entry = {{"name", result.who.name},
                            {"library", text_or_null(result.who.library)},
                            {"failure", text_or_null(result.failure)},
                            {"error_tail", result.error_tail}};
    for (const compared_metric& row : compared_metrics) {
      const std::vector<double> values = values_of(result.rounds, row.value);
      if (values.empty()) continue;
      entry["metrics"][row.key] = summary_of(values);
      entry["metrics"][row.key]["half_quartile_range"] = half_quartile_range(values);
    }
    contenders.push_back(std::move(entry));
  }
  nlohmann::json verdicts = nlohmann::json::array();
  for (const pairwise_verdict& verdict : judge_all(outcome)) {
    const char* word = verdict.judged.outcome == difference::less   ? "less"
                       : verdict.judged.outcome == difference::more ? "more"
                                                                    : "no difference beyond noise";
    verdicts.push_back({{"metric", verdict.metric},
                        {"subject", verdict.subject},
                        {"other", verdict.other},
                        {"outcome", word},
                        {"ratio", verdict.judged.ratio},
                        {"low", verdict.judged.low},
                        {"high", verdict.judged.high},
                        {"confidence", verdict.judged.confidence}});
  }
  return {{"rounds", outcome.rounds},
          {"usual_exit", outcome.usual_exit ? nlohmann::json(format_exit(*outcome.usual_exit)) : nullptr},
          {"contenders", contenders},
          {"verdicts", verdicts}};
}

int exit_code_of(const comparison_outcome& outcome, bool ignore_failure) {
  for (const contender_result& result : outcome.results) {
    if (!result.failure.empty()) return exit_code::results_differ;
  }
  const bool fails = !outcome.usual_exit || *outcome.usual_exit != 0;
  return fails && !ignore_failure ? exit_code::program_fails : exit_code::success;
}

}  // namespace tarn::cli
