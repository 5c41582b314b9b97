// SPDX-License-Identifier: MIT
// tarn sites: the call sites of a profile as a table.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli_error.hpp"
#include "command_line.hpp"
#include "commands.hpp"
#include "process_choice.hpp"
#include "profile_view.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/model/figure_columns.hpp"
#include "text.hpp"

namespace tarn::cli {

namespace {

using profiler::metric;
using profiler::metric_row;
using profiler::profile;

constexpr const char* sites_footer =
    "Examples:\n"
    "  tarn sites server.tarn                        the 20 sites that cost most\n"
    "  tarn sites server.tarn --sort peak -n 50      those that held most memory when there was most\n"
    "  tarn sites server.tarn --filter json::parser  those with such a function, file or type on their path\n"
    "\n"
    "Metrics: cost (malloc, free and what the kernel does for them), malloc, hidden (cost less malloc), faults,\n"
    "allocations, bytes, live, live_bytes, peak. \u00b112%: of a sampled figure, in 95 of 100 cases the true one is as near.\n"
    "Exit codes: 0 shown; 2 usage; 125 the file cannot be read.\n";

// The sites whose paths would look the same: of one function, with the same callers next to it.
struct site_line {
  const metric_row* row;  // the first of them
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
  // What is guessed is marked so.
  const bool sure = row.who->evidence == profiler::type_evidence::allocator;
  return row.who->type + (sure ? "" : "?");
}

constexpr std::size_t most_type_columns = 32;

// A figure and the margin of its sampling, aligned each.
class figure_cells {
 public:
  figure_cells(const profile& p, const std::vector<site_line>& lines, const metric& what) {
    values_.emplace_back(what.name);
    margins_.emplace_back();
    for (const site_line& line : lines) {
      const double value = what.of(p, line.figures);
      values_.push_back(show_value(what.unit, value));
      margins_.push_back(show_margin(margin_of(p, what, line.figures), value));
    }
    std::size_t width = 0;
    for (const std::string& margin : margins_) width = std::max(width, display_width(margin));
    if (width == 0) return;
    for (std::size_t row = 1; row < values_.size(); ++row)
      values_[row] += " " + pad_right(margins_[row], width);
  }
  [[nodiscard]] const std::vector<std::string>& texts() const noexcept { return values_; }

 private:
  std::vector<std::string> values_;
  std::vector<std::string> margins_;
};

std::vector<std::vector<std::string>> cells_of(const profile& p, const std::vector<site_line>& lines) {
  std::vector<std::vector<std::string>> cells(lines.size() + 1);
  for (const metric& each : profiler::metrics()) {
    const figure_cells column(p, lines, each);
    for (std::size_t row = 0; row < cells.size(); ++row) cells[row].push_back(column.texts()[row]);
  }
  cells[0].emplace_back("type");
  for (std::size_t row = 0; row < lines.size(); ++row)
    cells[row + 1].push_back(cut_to_width(type_of(*lines[row].row), most_type_columns));
  return cells;
}

void print_table(const profile& p, const std::vector<site_line>& lines, const metric& sort, name_form form,
                 bool colour) {
  const std::vector<std::vector<std::string>> cells = cells_of(p, lines);
  std::vector<std::size_t> widths(cells[0].size());
  for (const auto& row : cells) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], display_width(row[column]));
    }
  }
  std::size_t used = 2;
  for (const std::size_t width : widths) used += width + 2;
  const std::size_t terminal = terminal_width(STDOUT_FILENO);
  const std::size_t left =
      terminal == 0 ? 0 : std::max<std::size_t>(terminal > used ? terminal - used : 0, 30);
  std::vector<std::vector<profiler::source_frame>> paths;
  for (const site_line& line : lines) paths.push_back(line.row->frames(p));
  const std::vector<std::string> places = show_paths(paths, form == name_form::whole ? 0 : left, form);
  for (std::size_t index = 0; index < cells.size(); ++index) {
    std::string text;
    for (std::size_t column = 0; column < widths.size(); ++column) {
      const bool is_type = column + 1 == widths.size();
      const std::string cell = is_type ? pad_right(cells[index][column], widths[column])
                                       : pad_left(cells[index][column], widths[column]);
      const bool is_key = !is_type && profiler::metrics()[column].name == sort.name;
      text +=
          (column == 0 ? "" : "  ") + paint(cell, is_key && index > 0 ? style::bold : style::plain, colour);
    }
    text += index == 0 ? "  where" : "  " + places[index - 1];
    fmt::print("{}\n", index == 0 ? paint(text, style::bold, colour) : text);
  }
}

void print_json(const profile& p, const std::vector<site_line>& lines, double shown, double total,
                const metric& sort) {
  nlohmann::json rows = nlohmann::json::array();
  for (const site_line& line : lines) {
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
    rows.push_back(std::move(row));
  }
  const nlohmann::json whole = {{"sort", sort.name}, {"shown", shown}, {"total", total}, {"sites", rows}};
  fmt::print("{}\n", whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int cmd_sites(const std::vector<std::string>& words) {
  CLI::App app{"Show the call sites of a profile as a table.", "sites"};
  set_usage(app, "tarn sites [OPTIONS] FILE");
  std::string path, sort_name = "cost", filter, process;
  std::size_t most = 20;
  bool json = false;
  bool full_names = false;
  app.add_option("file", path, "A profile that tarn profile wrote")->required()->option_text("FILE");
  app.add_option("-s,--sort", sort_name, "The metric to sort by (cost)")->option_text("METRIC");
  app.add_option("-f,--filter", filter, "Only sites with this text in a function, a file or the type")
      ->option_text("TEXT");
  add_process_option(app, process);
  app.add_option("-n", most, "So many at most (20); 0 for all")->option_text("N");
  app.add_flag("--full-names", full_names, "Names with all template arguments and parameters");
  app.add_flag("--json", json, "Print JSON");
  app.footer(sites_footer);
  if (!parse_options(app, words, exit_code::usage)) return exit_code::success;
  const metric& sort = metric_named("--sort", sort_name);
  const profile p = load_for_command(path, process);
  const std::vector<metric_row> rows = profiler::metric_rows(p);
  std::vector<site_line> lines;
  std::map<std::string, std::size_t> known;  // places, with what is allocated there
  double total = 0, shown = 0;
  std::size_t found = 0, shown_sites = 0;
  for (const metric_row& row : rows) {
    const double key = sort.of(p, row.figures());
    total += key;
    if (!matches(p, row, filter)) continue;
    const auto frames = row.frames(p);
    const auto [at, is_new] = known.try_emplace(place_key(p, frames) + type_of(row), lines.size());
    if (is_new) lines.push_back({&row, frames[profiler::own_frame(frames)], 0, {}, 0});
    lines[at->second].key += key;
    add(lines[at->second].figures, row.figures());
    ++lines[at->second].sites;
    ++found;
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const site_line& a, const site_line& b) { return a.key > b.key; });
  if (most != 0 && lines.size() > most) lines.resize(most);
  for (const site_line& line : lines) {
    shown += line.key;
    shown_sites += line.sites;
  }
  if (json) {
    print_json(p, lines, shown, total, sort);
    return exit_code::success;
  }
  const bool colour = wants_colour(STDOUT_FILENO);
  const name_form form = full_names ? name_form::whole : name_form::shortened;
  if (!lines.empty()) print_table(p, lines, sort, form, colour);
  fmt::print("{}\n",
             paint(fmt::format("{} of {} {}: {} of {} in all ({})", shown_sites, found,
                               filter.empty() ? "sites" : "sites that match", show_value(sort.unit, shown),
                               show_value(sort.unit, total), show_percent(shown, total)),
                   style::faint, colour));
  return exit_code::success;
}

}  // namespace tarn::cli
