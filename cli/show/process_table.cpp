// SPDX-License-Identifier: MIT
#include "cli/show/process_table.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

using profiler::process_summary;

namespace {

constexpr std::size_t widest_command = 40;

std::string count_of(double images) { return fmt::format("{:.0f} processes", images); }

// The command line of one process; of several, their name and number.
std::string command_of(const process_summary& one) {
  if (one.process == 0) return profiler::printable(one.command) + " (" + count_of(one.images) + ")";
  std::string text = one.command;
  for (std::size_t word = 1; word < one.arguments.size(); ++word) text += " " + one.arguments[word];
  text = profiler::printable(text);
  if (one.images <= 1) return text;
  const std::string more = fmt::format(" + {:.0f} small", one.images - 1);
  return cut_to_width(text, widest_command - more.size()) + more;
}

std::vector<std::string> cells_of(const process_summary& one, double whole, bool with_files) {
  std::vector<std::string> cells = {profiler::say_time(one.charged.total()),
                                    profiler::say_share(one.charged.total(), whole),
                                    profiler::say_time(one.cpu_ns),
                                    profiler::say_count(one.allocations),
                                    profiler::say_count(one.faults),
                                    one.process == 0 ? "-" : std::to_string(one.process),
                                    cut_to_width(command_of(one), widest_command)};
  if (with_files) cells.push_back(one.path.empty() ? "-" : profiler::printable(one.path));
  return cells;
}

}  // namespace

std::vector<process_summary> processes_in(const std::vector<profiler::profile>& figures) {
  std::vector<process_summary> all;
  for (const profiler::profile& each : figures) all.push_back(profiler::summary_of(each));
  for (process_summary& each : all) {
    const bool is_group = each.images > 1 && each.process != 0;
    if (is_group && each.arguments.empty()) each.process = 0;
  }
  std::stable_sort(all.begin(), all.end(), [](const process_summary& left, const process_summary& right) {
    return left.charged.total() > right.charged.total();
  });
  return all;
}

process_summary sum_of(const std::vector<process_summary>& processes) {
  process_summary sum;
  sum.images = 0;
  for (const process_summary& each : processes) sum.add(each);
  return sum;
}

std::string render_processes(const std::vector<process_summary>& processes, std::size_t most, bool with_files,
                             std::size_t width) {
  const double whole = sum_of(processes).charged.total();
  std::vector<std::vector<std::string>> rows = {
      {"cost", "share", "CPU time", "allocations", "faults", "pid", "command"}};
  if (with_files) rows[0].emplace_back("file");
  for (std::size_t index = 0; index < std::min(most, processes.size()); ++index) {
    rows.push_back(cells_of(processes[index], whole, with_files));
  }
  if (processes.size() > most) {
    process_summary rest = sum_of({processes.begin() + static_cast<std::ptrdiff_t>(most), processes.end()});
    rest.command = "others";
    rows.push_back(cells_of(rest, whole, with_files));
  }
  constexpr std::size_t first_text = 6;
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], display_width(row[column]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const bool is_last = column + 1 == row.size();
      line += "  " + (column < first_text ? pad_left(row[column], widths[column])
                      : is_last           ? row[column]
                                          : pad_right(row[column], widths[column]));
    }
    text += cut_to_width(line, width) + "\n";
  }
  return text;
}

nlohmann::json as_json(const process_summary& one) {
  return {{"pid", one.process == 0 ? nlohmann::json() : nlohmann::json(one.process)},
          {"parent", one.parent == 0 ? nlohmann::json() : nlohmann::json(one.parent)},
          {"command", profiler::printable(one.command)},
          {"processes", one.images},
          {"allocations", one.allocations},
          {"bytes", one.bytes},
          {"faults", one.faults},
          {"cpu_ns", one.cpu_ns},
          {"cost_ns", one.charged.total()},
          {"malloc_ns", one.charged.malloc_ns},
          {"fault_ns", one.charged.fault_ns},
          {"unmap_ns", one.charged.unmap_ns},
          {"file", one.path.empty() ? nlohmann::json() : nlohmann::json(profiler::printable(one.path))}};
}

}  // namespace tarn::cli
