// SPDX-License-Identifier: MIT
#include "cli/show/process_table.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "cli/show/cli_error.hpp"
#include "cli/show/profile_verdict.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

using profiler::process_summary;

namespace {

constexpr std::size_t most_processes = 12;
// Below this share, unrecorded time is not reported: it comes from clock ticks and from the start of each program.
constexpr double least_missing = 0.05;

}  // namespace

bool is_tree(const profiler::recording& record) { return record.processes().size() > 1; }

std::string render_tree(const std::vector<process_summary>& processes, double cpu_ns, std::size_t width) {
  const process_summary sum = sum_of(processes);
  // Some processes end without reporting their usage; the system has counted it.
  const double all_cpu = std::max(sum.cpu_ns, cpu_ns);
  std::string text =
      fmt::format("{:.0f} processes: {} allocations of {}; memory cost about {} of {} processor time\n",
                  sum.images, profiler::say_count(sum.allocations), profiler::say_bytes(sum.bytes),
                  profiler::say_time(sum.charged.total()), profiler::say_time(all_cpu));
  text += fmt::format(
      "  in malloc and free {}; afterwards in the kernel {} for page faults and {} for giving "
      "memory back\n",
      profiler::say_time(sum.charged.malloc_ns), profiler::say_time(sum.charged.fault_ns),
      profiler::say_time(sum.charged.unmap_ns));
  if (all_cpu - sum.cpu_ns > least_missing * all_cpu) {
    text += fmt::format(
        "  not in the table: {} of processor time: of processes that were not recorded or were "
        "killed, and of programs before their recording began\n",
        profiler::say_time(all_cpu - sum.cpu_ns));
  }
  return text + render_processes(processes, most_processes, true, width);
}

nlohmann::json tree_as_json(const std::vector<process_summary>& processes) {
  nlohmann::json rows = nlohmann::json::array();
  for (const process_summary& each : processes) rows.push_back(as_json(each));
  nlohmann::json sum = as_json(sum_of(processes));
  for (const char* name : {"pid", "parent", "command", "file"}) sum.erase(name);
  sum["table"] = rows;
  return sum;
}

void print_tree_verdict(const profiler::recording& record, double cpu_ns) {
  // Of the program itself; that of the costliest process follows with its own verdict.
  if (const profiler::profile* main = record.main_profile();
      main != nullptr && main != record.costliest_profile()) {
    if (const std::string memory = render_memory_verdict(*main); !memory.empty())
      write_message(fold("tarn: " + memory, terminal_width(STDERR_FILENO)));
  }
  const std::size_t width = terminal_width(STDERR_FILENO);
  write_message(fold("tarn: " + render_tree(record.processes(), cpu_ns, width), width));
  const auto costliest = std::find_if(record.processes().begin(), record.processes().end(),
                                      [](const process_summary& one) { return one.has_own_file; });
  if (record.costliest_profile() == nullptr || costliest == record.processes().end()) return;
  print_note(fmt::format("the most expensive process with its own file is {}, {}; only this process:",
                         costliest->process, costliest->command));
  print_verdict(*record.costliest_profile());
}

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
  const double whole = sum_of(processes).cpu_ns;
  std::vector<std::string> headings = {"cost",   "share", "CPU time", "allocations",
                                       "faults", "pid",   "command"};
  if (with_files) headings.emplace_back("file");
  text_table table(headings, {6, headings.size() - 1});
  for (std::size_t index = 0; index < std::min(most, processes.size()); ++index)
    table.add(cells_of(processes[index], whole, with_files));
  if (processes.size() > most) {
    process_summary rest = sum_of({processes.begin() + static_cast<std::ptrdiff_t>(most), processes.end()});
    rest.command = "others";
    table.add(cells_of(rest, whole, with_files));
  }
  std::string text = cut_to_width("  " + table.heading(false), width) + "\n";
  for (std::size_t index = 0; index < table.rows(); ++index)
    text += cut_to_width("  " + table.row(index, false), width) + "\n";
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
