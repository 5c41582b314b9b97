// SPDX-License-Identifier: MIT
#include "cli/views/profile_views.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
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

namespace tarn::cli {

namespace {

using profiler::metric;
using profiler::metric_row;
using profiler::profile;

// A row of the table: a place, with all sites that have its label.
struct site_line {
  profiler::source_frame where;
  double key = 0;
  profiler::site_figures figures;  // of all
  std::size_t sites = 0;
  std::set<std::string> types;
};

void add(site_line& sum, const site_line& more) {
  profiler::add_up(sum.figures, more.figures);
  sum.key += more.key;
  sum.sites += more.sites;
  sum.types.insert(more.types.begin(), more.types.end());
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

std::string types_of(const site_line& line) {
  if (line.types.size() > 1) return fmt::format("{} types", line.types.size());
  return line.types.empty() ? "" : *line.types.begin();
}

// Places that would look alike are shown with the whole path of their file.
std::vector<std::string> names_of(const profile& p, const std::vector<site_line>& lines, std::size_t width,
                                  name_form form) {
  std::vector<std::string> names;
  std::map<std::string, int> alike;
  for (const site_line& line : lines) {
    names.push_back(show_frame(line.where, width, form));
    ++alike[names.back()];
  }
  for (std::size_t index = 0; index < lines.size(); ++index) {
    if (alike[names[index]] > 1)
      names[index] = cut_in_middle(names[index] + "  " + file_of(p, lines[index].where), width);
  }
  return names;
}

// All metrics and the type, as many as the terminal has room for, the metric by which is sorted in any case.
text_table table_of(const profile& p, const std::vector<site_line>& lines, const metric& sort) {
  constexpr std::size_t least_place = 30;
  constexpr std::size_t most_type_columns = 32;
  std::vector<std::string> headings;
  std::vector<std::size_t> by_priority;
  for (const metric& each : profiler::metrics()) {
    if (!is_known(p, each)) continue;
    by_priority.insert(&each == &sort ? by_priority.begin() : by_priority.end(), headings.size());
    headings.emplace_back(each.name);
  }
  by_priority.push_back(headings.size());
  headings.emplace_back("type");
  text_table table(headings, {headings.size() - 1});
  for (const site_line& one : lines) {
    std::vector<table_cell> line;
    for (const metric& each : profiler::metrics()) {
      if (!is_known(p, each)) continue;
      line.push_back(
          {profiler::say_estimate(each.unit, each.of(p, one.figures), margin_of(p, each, one.figures)),
           &each == &sort ? style::bold : style::plain});
    }
    line.push_back({cut_to_width(types_of(one), most_type_columns)});
    table.add(std::move(line));
  }
  const std::size_t terminal = terminal_width(STDOUT_FILENO);
  table.fit(terminal > least_place ? terminal - least_place : std::min<std::size_t>(terminal, 1),
            by_priority);
  return table;
}

void print_table(const profile& p, const std::vector<site_line>& lines, const metric& sort, name_form form,
                 bool colour) {
  const text_table table = table_of(p, lines, sort);
  const std::size_t left = form == name_form::whole ? 0 : room_beside(table.width());
  const std::vector<std::string> names = names_of(p, lines, left, form);
  fmt::print("{}\n", table.heading(colour, "where"));
  for (std::size_t row = 0; row < lines.size(); ++row) {
    fmt::print("{}\n", table.row(row, colour, names[row]));
    const std::string hint = hint_line(p, lines[row].where, 4);
    if (!hint.empty()) print_text(paint(hint, style::faint, colour));
  }
  if (table.without_room().empty()) return;
  for (const std::string& line :
       {table.without_room(),
        std::string("(widen the terminal, or use --metric METRIC, --json, or | less -S)")})
    print_text(paint(line + "\n", style::faint, colour));
}

nlohmann::json row_json(const profile& p, const site_line& line) {
  nlohmann::json row = {
      {"function", line.where.function},
      {"file", line.where.file},
      {"line", line.where.line},
      {"type", line.types.size() == 1 ? line.types.begin()->substr(0, line.types.begin()->rfind('?')) : ""},
      {"sites", line.sites}};
  nlohmann::json margins = nlohmann::json::object();
  for (const metric& each : profiler::metrics()) {
    if (!is_known(p, each)) continue;
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
  double total = 0;              // of all sites
};

site_lines lines_of(const profile& p, const metric& sort, const std::string& filter) {
  site_lines result;
  std::map<profiler::place_key, std::size_t> known;  // index into `lines`
  for (const metric_row& row : profiler::metric_rows(p)) {
    site_line one{{}, sort.of(p, row.figures(p)), row.figures(p), 1, {}};
    result.total += one.key;
    if (!matches(p, row, filter)) continue;
    one.where = profiler::label_of(row.frames(p));
    if (const std::string type = type_of(row); !type.empty()) one.types.insert(type);
    const auto [at, is_new] = known.try_emplace(key_of(p, one.where), result.lines.size());
    if (is_new) {
      result.lines.push_back(std::move(one));
    } else {
      add(result.lines[at->second], one);
    }
  }
  std::stable_sort(result.lines.begin(), result.lines.end(),
                   [](const site_line& a, const site_line& b) { return a.key > b.key; });
  return result;
}

// What the sum is a share of: times of the processor time, all else of the whole profile.
std::string say_sum(const profile& p, const metric& sort, double shown, double total) {
  const double processor = profiler::processor_ns(p);
  const bool is_time = sort.unit == profiler::base_unit::ns && processor > 0;
  const double margin = margin_of_sum(p, sort);
  return fmt::format("{} of {} in total ({} of {})", profiler::say_estimate(sort.unit, shown, margin),
                     profiler::say_estimate(sort.unit, total, margin),
                     profiler::say_share(is_time ? total : shown, is_time ? processor : total, margin),
                     is_time ? profiler::say_time(processor) + " processor time" : "it");
}

}  // namespace

const metric& view_request::metric_for(const profile& p) const {
  const std::string usual = profiler::has_costs(p) ? "cost" : "live_bytes";
  const profiler::metric& found = *profiler::find_metric(metric.empty() ? usual : metric);
  if (is_known(p, found)) return found;
  throw cli_error(
      exit_code::refused,
      fmt::format("{} is of {}, which has no figures for {}", path, profiler::origin_of(p), metric),
      "It has those that tarn show FILE prints.");
}

int show_sites(const view_request& asked) {
  const profile p = load_for_command(asked.path, asked.process, profiler::profile_detail::figures);
  const metric& sort = asked.metric_for(p);
  auto [lines, total] = lines_of(p, sort, asked.filter);
  const std::size_t found = lines.size();
  const auto sum_of = [](const auto begin, const auto end) {
    site_line sum;
    for (auto at = begin; at != end; ++at) add(sum, *at);
    return sum;
  };
  if (asked.json) {
    lines.resize(std::min(found, asked.most_rows(20)));
    print_json(p, lines, sum_of(lines.begin(), lines.end()).key, total, sort);
    return exit_code::success;
  }
  const std::size_t kept = profiler::split_off_others(lines, asked.most_rows(20), [&](const site_line& line) {
    return std::pair{line.key, margin_of(p, sort, line.figures)};
  });
  site_line others = sum_of(lines.begin() + static_cast<std::ptrdiff_t>(kept), lines.end());
  others.where.function = fmt::format("[others: {}]", profiler::say_places(found - kept));
  others.types.clear();
  lines.resize(kept);
  const double shown = sum_of(lines.begin(), lines.end()).key;
  if (others.sites > 0) lines.push_back(std::move(others));
  const bool colour = wants_colour(STDOUT_FILENO);
  const name_form form = asked.full_names ? name_form::whole : name_form::shortened;
  if (found > 0) print_table(p, lines, sort, form, colour);
  print_text(paint(
      fmt::format("{} of {} {}: {}\n", kept, found, asked.filter.empty() ? "places" : "places that match",
                  say_sum(p, sort, shown, total)),
      style::faint, colour));
  return exit_code::success;
}

}  // namespace tarn::cli
