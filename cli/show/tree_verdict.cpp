// SPDX-License-Identifier: MIT
#include "cli/show/tree_verdict.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/show/memory_verdict.hpp"
#include "cli/show/process_table.hpp"
#include "cli/show/profile_verdict.hpp"
#include "cli/show/text.hpp"
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
      fmt::format("{:.0f} processes: {} allocations of {}; memory truly cost about {} of {} processor time\n",
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
      fmt::print(stderr, "{}", fold("tarn: " + memory, terminal_width(STDERR_FILENO)));
  }
  fmt::print(stderr, "tarn: {}", render_tree(record.processes(), cpu_ns, terminal_width(STDERR_FILENO)));
  const auto costliest = std::find_if(record.processes().begin(), record.processes().end(),
                                      [](const process_summary& one) { return one.has_own_file; });
  if (record.costliest_profile() == nullptr || costliest == record.processes().end()) return;
  fmt::print(stderr, "tarn: the most expensive process with its own file is {}, {}; only this process:\n",
             costliest->process, profiler::printable(costliest->command));
  print_verdict(*record.costliest_profile());
}

}  // namespace tarn::cli
