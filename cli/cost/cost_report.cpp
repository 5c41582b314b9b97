// SPDX-License-Identifier: MIT
#include "cli/cost/cost_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/compare/statistics.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

// A total below this share of the reference's writes counts as zero.
constexpr double smallest_total = 0.2;

bool has_figures(const cost_result& result) { return result.failure.empty() && !result.rounds.empty(); }

std::optional<double> reference_seconds(const cost_outcome& outcome, std::uint64_t size) {
  for (const cost_result& result : outcome.results) {
    const bool is_reference = outcome.ways[result.way].source == buffer_source::recycled;
    if (result.size != size || !is_reference || !has_figures(result)) continue;
    std::vector<double> writes;
    for (const cost_figures& round : result.rounds) {
      writes.push_back(round.first_write_seconds + round.second_write_seconds);
    }
    return median(writes);
  }
  return std::nullopt;
}

cost_row row_of(const cost_result& result, const buffer_way& way, double reference) {
  cost_row row{.result = &result, .way = &way, .is_reference = way.source == buffer_source::recycled};
  for (const auto& one : cost_figure_names)
    row.middle.*one.value = median(values_of(result.rounds, one.value));
  std::vector<double> totals;
  std::vector<double> timed;
  for (const cost_figures& round : result.rounds) {
    totals.push_back(round.cycle_seconds() - reference);
    timed.push_back(round.timed_seconds());
  }
  row.timed_seconds = median(timed);
  row.total_seconds = median(totals);
  row.lowest_total = *std::min_element(totals.begin(), totals.end());
  row.highest_total = *std::max_element(totals.begin(), totals.end());
  if (!row.is_reference && row.total_seconds >= smallest_total * reference) {
    row.seen_share = row.timed_seconds / row.total_seconds;
  }
  return row;
}

// "15.9 to 18.2 ms", or "-965 ns to 38.2 us".
std::string show_range(const cost_row& row) {
  std::string low = profiler::say_seconds(row.lowest_total);
  const std::string high = profiler::say_seconds(row.highest_total);
  const std::size_t unit = low.find(' ');
  if (high.ends_with(low.substr(unit))) low.resize(unit);
  return fmt::format("{} to {}", low, high);
}

// A column of the table, after the way's name.
struct cost_column {
  const char* first;  // the two lines of its head
  const char* second;
  std::string (*show)(const cost_row&);
};

constexpr cost_column columns[] = {
    {"", "allocate", [](const cost_row& row) { return profiler::say_seconds(row.middle.allocate_seconds); }},
    {"", "free", [](const cost_row& row) { return profiler::say_seconds(row.middle.free_seconds); }},
    {"1st write", "per MiB",
     [](const cost_row& row) {
       return profiler::say_seconds(row.middle.first_write_seconds / row.size_mib());
     }},
    {"2nd write", "per MiB",
     [](const cost_row& row) {
       return profiler::say_seconds(row.middle.second_write_seconds / row.size_mib());
     }},
    {"page", "faults", [](const cost_row& row) { return profiler::say_count(row.middle.faults); }},
    {"system", "time", [](const cost_row& row) { return profiler::say_seconds(row.middle.system_seconds); }},
    {"keeps", "after free", [](const cost_row& row) { return profiler::say_bytes(row.middle.kept_bytes); }},
    {"a timer", "sees",
     [](const cost_row& row) {
       return row.seen_share ? profiler::say_share(*row.seen_share) : std::string("-");
     }},
    {"true", "total",
     [](const cost_row& row) {
       return row.is_reference ? std::string("-") : profiler::say_seconds(row.total_seconds);
     }},
    {"lowest to", "highest",
     [](const cost_row& row) { return row.is_reference ? std::string("-") : show_range(row); }},
};

// The way, then of `columns` (from 1) what says most.
const std::vector<std::size_t> by_priority = {0, 9, 8, 5, 7, 3, 1, 2, 10, 6, 4};

std::string render_size(const cost_outcome& outcome, std::uint64_t size, bool colour, std::size_t terminal) {
  const std::vector<cost_row> rows = rows_of(outcome, size);
  if (rows.empty()) return {};
  std::vector<std::string> first = {profiler::say_exactly(size)};
  std::vector<table_cell> second = {{}};
  for (const cost_column& each : columns) {
    first.emplace_back(each.first);
    second.push_back({each.second, style::bold});
  }
  text_table table(std::move(first), {0});
  table.add(std::move(second));
  for (const cost_row& row : rows) {
    const style how = row.is_reference ? style::faint : style::plain;
    std::vector<table_cell> cells = {{row.way->name, how}};
    for (const cost_column& each : columns) cells.push_back({each.show(row), how});
    table.add(std::move(cells));
  }
  table.fit(terminal, by_priority);
  const bool all = table.shown() == by_priority.size();
  return table.text(colour) +
         (all ? "" : paint("(all columns: a wider terminal, | less -S, or --json)\n", style::faint, colour));
}

nlohmann::json figures_of(const cost_row& row) {
  nlohmann::json figures;
  for (const auto& one : cost_figure_names)
    figures[one.key] = summary_of(values_of(row.result->rounds, one.value));
  return figures;
}

}  // namespace

std::vector<cost_row> rows_of(const cost_outcome& outcome, std::uint64_t size) {
  const std::optional<double> reference = reference_seconds(outcome, size);
  std::vector<cost_row> rows;
  if (!reference) return rows;
  for (const cost_result& result : outcome.results) {
    if (result.size == size && has_figures(result)) {
      rows.push_back(row_of(result, outcome.ways[result.way], *reference));
    }
  }
  return rows;
}

std::string render_cost_table(const cost_outcome& outcome, bool colour, std::size_t terminal) {
  std::string text;
  for (const std::uint64_t size : outcome.sizes) {
    const std::string part = render_size(outcome, size, colour, terminal);
    if (!part.empty()) text += part + "\n";
  }
  text += paint(
      fmt::format("medians of {} round{}, per cycle of allocate, write, write again, free; true total: what "
                  "that takes more than the two writes alone on a recycled buffer\n",
                  outcome.rounds, outcome.rounds == 1 ? "" : "s"),
      style::faint, colour);
  return text;
}

std::vector<std::string> cost_remarks(const cost_outcome& outcome) {
  std::vector<std::string> remarks;
  for (const cost_result& result : outcome.results) {
    if (!result.failure.empty()) {
      remarks.push_back(fmt::format("{}, {}: not measured: {}", outcome.ways[result.way].name,
                                    profiler::say_exactly(result.size), result.failure));
    }
  }
  std::map<std::string, std::vector<std::string>> small_pages;
  for (const std::uint64_t size : outcome.sizes) {
    for (const cost_row& row : rows_of(outcome, size)) {
      const double huge = static_cast<double>(huge_page_size());
      const bool too_many = huge <= 0 || row.middle.faults > 4 + 4 * static_cast<double>(size) / huge;
      if (row.way->source == buffer_source::huge && too_many) {
        small_pages[row.way->name].push_back(profiler::say_exactly(size));
      }
    }
  }
  for (const auto& [name, sizes] : small_pages) {
    remarks.push_back(
        fmt::format("{}, {}: the system used small pages, so this is ordinary mmap (whether it may use huge "
                    "pages: /sys/kernel/mm/transparent_hugepage/enabled)",
                    name, join(sizes, ", ")));
  }
  return remarks;
}

nlohmann::json as_json(const cost_outcome& outcome) {
  nlohmann::json results = nlohmann::json::array();
  for (const std::uint64_t size : outcome.sizes) {
    for (const cost_row& row : rows_of(outcome, size)) {
      results.push_back({{"way", row.way->name},
                         {"library", row.way->who.library.empty() ? nlohmann::json()
                                                                  : nlohmann::json(row.way->who.library)},
                         {"size_bytes", size},
                         {"true_total_seconds", row.total_seconds},
                         {"true_total_lowest_seconds", row.lowest_total},
                         {"true_total_highest_seconds", row.highest_total},
                         {"timer_seconds", row.timed_seconds},
                         {"timer_share", row.seen_share ? nlohmann::json(*row.seen_share) : nlohmann::json()},
                         {"metrics", figures_of(row)}});
    }
  }
  nlohmann::json failures = nlohmann::json::array();
  for (const cost_result& result : outcome.results) {
    if (result.failure.empty()) continue;
    failures.push_back(
        {{"way", outcome.ways[result.way].name}, {"size_bytes", result.size}, {"failure", result.failure}});
  }
  return {{"rounds", outcome.rounds}, {"sizes", outcome.sizes}, {"results", results}, {"failures", failures}};
}

}  // namespace tarn::cli
