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
#include "profiler/analyze/site_label.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/figure_columns.hpp"

namespace tarn::cli {

namespace {

using profiler::metric;
using profiler::metric_row;
using profiler::profile;

// A row of the table: the sites whose paths would look the same, with the same function and the same nearest
// callers.
struct site_line {
  const metric_row* row;  // the first of these sites
  profiler::source_frame where;
  double key;
  profiler::site_figures figures;  // of all
  std::size_t sites = 0;
};

void add(profiler::site_figures& sum, const profiler::site_figures& more) {
  for (const profiler::figure_column& each : profiler::figure_columns) sum.*each.member += more.*each.member;
}

bool matches(const profile& p, const metric_row& row, const std::string& filter) {
  if (filter.empty()) return true;
  if (row.who != nullptr && row.who->type.find(filter) != std::string::npos) return true;
  const auto frames = row.frames(p);
  return std::any_of(frames.begin(), frames.end(), [&filter](const profiler::source_frame& frame) {
    return frame.function.find(filter) != std::string::npos || frame.file.find(filter) != std::string::npos;
  });
}

std::string type_of(const metric_row& row) {
  if (row.who == nullptr || row.who->type.empty()) return "";
  // A guessed type is marked by "?".
  const bool sure = row.who->evidence == profiler::type_evidence::allocator;
  return row.who->type + (sure ? "" : "?");
}

// The cells of one metric: figure and margin of sampling, each aligned.
std::vector<std::string> figure_cells(const profile& p, const std::vector<site_line>& lines,
                                      const metric& what) {
  std::vector<std::string> values;
  std::vector<std::string> margins;
  std::size_t width = 0;
  for (const site_line& line : lines) {
    const double value = what.of(p, line.figures);
    values.push_back(say(what.unit, value));
    margins.push_back(profiler::say_margin(margin_of(p, what, line.figures), value));
    width = std::max(width, display_width(margins.back()));
  }
  for (std::size_t row = 0; row < values.size() && width > 0; ++row)
    values[row] += " " + pad_right(margins[row], width);
  return values;
}

// As many metrics and the type as the terminal has room for, the metric by which is sorted in any case; then the place.
void print_table(const profile& p, const std::vector<site_line>& lines, const metric& sort, name_form form,
                 bool colour) {
  constexpr std::size_t least_place = 30;
  constexpr std::size_t most_type_columns = 32;
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> cells;  // by metric
  std::vector<std::size_t> by_priority;
  for (const metric& each : profiler::metrics()) {
    by_priority.insert(&each == &sort ? by_priority.begin() : by_priority.end(), headings.size());
    headings.emplace_back(each.name);
    cells.push_back(figure_cells(p, lines, each));
  }
  const std::size_t types = headings.size();
  by_priority.push_back(types);
  headings.emplace_back("type");
  text_table table(std::move(headings), {types});
  for (std::size_t row = 0; row < lines.size(); ++row) {
    std::vector<table_cell> line;
    for (std::size_t column = 0; column < types; ++column)
      line.push_back(
          {cells[column][row], &profiler::metrics()[column] == &sort ? style::bold : style::plain});
    line.push_back({cut_to_width(type_of(*lines[row].row), most_type_columns)});
    table.add(std::move(line));
  }
  const std::size_t terminal = terminal_width(STDOUT_FILENO);
  table.fit(terminal > least_place ? terminal - least_place : std::min<std::size_t>(terminal, 1),
            by_priority);
  const std::size_t left = form == name_form::whole ? 0 : room_beside(table.width());
  const std::vector<std::string> places = show_paths(
      lines.size(), [&](std::size_t index) { return lines[index].row->frames(p); }, left, form);
  fmt::print("{}\n", table.heading(colour, "where"));
  for (std::size_t row = 0; row < lines.size(); ++row)
    fmt::print("{}\n", table.row(row, colour, places[row]));
  if (table.without_room().empty()) return;
  for (const std::string& line :
       {table.without_room(),
        std::string("(widen the terminal, or use --metric METRIC, --json, or | less -S)")})
    fmt::print("{}\n", paint(line, style::faint, colour));
}

nlohmann::json row_json(const profile& p, const site_line& line) {
  nlohmann::json row = {{"function", line.where.function},
                        {"file", line.where.file},
                        {"line", line.where.line},
                        {"type", line.row->who == nullptr ? "" : line.row->who->type}};
  nlohmann::json margins = nlohmann::json::object();
  for (const metric& each : profiler::metrics()) {
    row[std::string(each.name)] = each.of(p, line.figures);
    if (each.variance != nullptr) margins[std::string(each.name)] = margin_of(p, each, line.figures);
  }
  row["margins"] = std::move(margins);
  return row;
}

void print_json(const profile& p, const std::vector<site_line>& lines, double shown, double total,
                const metric& sort) {
  print_json_rows({{"metric", sort.name}, {"shown", shown}, {"total", total}}, "sites", lines.size(),
                  [&](std::size_t index) { return row_json(p, lines[index]); });
}

struct site_lines {
  std::vector<site_line> lines;  // by the metric, descending
  std::size_t found = 0;         // sites that match
  double total = 0;              // of all sites
};

site_lines lines_of(const profile& p, const std::vector<metric_row>& rows, const metric& sort,
                    const std::string& filter) {
  site_lines result;
  std::map<std::string, std::size_t> known;  // index into `lines` by place and type
  for (const metric_row& row : rows) {
    const double key = sort.of(p, row.figures(p));
    result.total += key;
    if (!matches(p, row, filter)) continue;
    const auto frames = row.frames(p);
    const auto [at, is_new] = known.try_emplace(place_key(p, frames) + type_of(row), result.lines.size());
    if (is_new) result.lines.push_back({&row, frames[profiler::own_frame(frames)], 0, {}, 0});
    site_line& line = result.lines[at->second];
    line.key += key;
    add(line.figures, row.figures(p));
    ++line.sites;
    ++result.found;
  }
  std::stable_sort(result.lines.begin(), result.lines.end(),
                   [](const site_line& a, const site_line& b) { return a.key > b.key; });
  return result;
}

}  // namespace

int show_sites(const view_request& asked) {
  const metric& sort = *profiler::find_metric(asked.metric);
  const profile p = load_for_command(asked.path, asked.process, profiler::profile_detail::figures);
  const std::vector<metric_row> rows = profiler::metric_rows(p);
  auto [lines, found, total] = lines_of(p, rows, sort, asked.filter);
  lines.resize(std::min(lines.size(), asked.most_rows(20)));
  double shown = 0;
  std::size_t shown_sites = 0;
  for (const site_line& line : lines) {
    shown += line.key;
    shown_sites += line.sites;
  }
  if (asked.json) {
    print_json(p, lines, shown, total, sort);
    return exit_code::success;
  }
  const bool colour = wants_colour(STDOUT_FILENO);
  const name_form form = asked.full_names ? name_form::whole : name_form::shortened;
  if (!lines.empty()) print_table(p, lines, sort, form, colour);
  fmt::print("{}\n",
             paint(fmt::format("{} of {} {}: {} of {} in total ({})", shown_sites, found,
                               asked.filter.empty() ? "sites" : "sites that match", say(sort.unit, shown),
                               say(sort.unit, total), profiler::say_share(shown, total)),
                   style::faint, colour));
  if (const std::string names = profiler::missing_names(p); !names.empty()) fmt::print("{}\n", names);
  return exit_code::success;
}

}  // namespace tarn::cli
