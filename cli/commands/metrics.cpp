// SPDX-License-Identifier: MIT
// tarn metrics, trim, set: what a running process says and does at its control socket.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/control/control_client.hpp"
#include "cli/control/openmetrics.hpp"
#include "cli/control/process_answers.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/show/byte_size.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/quantity.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning metrics_exits[] = {{0, "shown"}, usage_exit, refused_exit};
constexpr exit_meaning trim_exits[] = {{0, "done"}, usage_exit, refused_exit};
constexpr exit_meaning set_exits[] = {{0, "changed, or shown"}, usage_exit, refused_exit};

constexpr command_text metrics_text = {
    .name = "metrics",
    .summary = "Print the memory figures of running processes as OpenMetrics text.",
    .usage = "tarn metrics [--json] PID...",
    .examples =
        "  TARN_CONTROL=on tarn run -- ./server &    a process that can be asked\n"
        "  tarn metrics $!                           its figures\n"
        "  tarn metrics 4711 4712                    of two, with the label pid\n"
        "  tarn metrics --json 4711                  the heap's figures as JSON\n",
    .notes =
        "The processes need tarn's malloc and the option control (TARN_CONTROL=on).\n"
        "'tarn serve' gives the same to Prometheus.\n",
    .exits = metrics_exits,
    .page = "docs/how-to/metrics.md",
};

constexpr command_text trim_text = {
    .name = "trim",
    .summary = "Make a running process give its idle memory back to the system now.",
    .usage = "tarn trim [OPTIONS] PID",
    .examples =
        "  tarn trim 4711                all free pages and what its caches can spare\n"
        "  tarn trim --keep 64M 4711     64 MiB of free pages stay\n",
    .notes =
        "The process needs tarn's malloc and the option control (TARN_CONTROL=on).\n"
        "Objects of recyclers stay: to destroy them would run the program's code.\n",
    .exits = trim_exits,
    .page = "docs/how-to/metrics.md",
};

constexpr command_text set_text = {
    .name = "set",
    .summary = "Show or change the options of a running process.",
    .usage = "tarn set [--json] PID [OPTION=VALUE...]",
    .examples =
        "  tarn set 4711                    its options\n"
        "  tarn set 4711 decay_ms=200       free memory goes back after 200 ms\n"
        "  tarn set 4711 profile=on         follow samples of the allocations\n",
    .notes =
        "The process needs tarn's malloc and the option control (TARN_CONTROL=on).\n"
        "Without OPTION=VALUE all options are shown, and which of them can be changed.\n",
    .exits = set_exits,
    .page = "docs/reference/options.md",
};

void print_options(const std::vector<process_option>& all) {
  std::size_t names = 0;
  std::size_t values = 0;
  for (const process_option& each : all) {
    names = std::max(names, each.name.size());
    values = std::max(values, each.value.size());
  }
  for (const process_option& each : all) {
    fmt::print("{}  {}  {}  {}\n", pad_right(each.name, names), pad_right(each.value, values),
               pad_right(each.source, 11),
               each.is_settable ? each.accepts : "only before the program starts");
  }
}

void print_json(const std::vector<process_option>& all) {
  nlohmann::json out = nlohmann::json::array();
  for (const process_option& each : all) {
    out.push_back({{"name", each.name},
                   {"value", each.value},
                   {"source", each.source},
                   {"settable", each.is_settable},
                   {"accepts", each.accepts}});
  }
  print_json_object(out);
}

void print_heaps(const std::vector<std::string>& processes) {
  nlohmann::json out = nlohmann::json::array();
  for (const std::string& word : processes) {
    const pid_t process = process_of(word);
    nlohmann::json heap = heap_figures_of(process);
    out.push_back({{"pid", process}, {"program", name_of_process(process)}, {"heap", std::move(heap)}});
  }
  print_json_object(out);
}

}  // namespace

int cmd_metrics(const std::vector<std::string>& words) {
  command app(metrics_text);
  std::vector<std::string> processes;
  bool json = false;
  app.option("pid PID...", processes, "Process ids")->required();
  app.add_flag("--json", json, "Print the heap's figures as a JSON array");
  if (!parse_options(app, words)) return exit_code::success;
  if (json) {
    print_heaps(processes);
    return exit_code::success;
  }
  std::vector<labelled_metrics> parts;
  for (const std::string& word : processes) {
    const pid_t process = process_of(word);
    labelled_metrics part{"", metrics_of(process)};
    if (processes.size() > 1)
      part.labels = written_labels({{"pid", std::to_string(process)}, {"program", name_of_process(process)}});
    parts.push_back(std::move(part));
  }
  fmt::print("{}", write_metrics(parts, metrics_format::openmetrics));
  return exit_code::success;
}

int cmd_trim(const std::vector<std::string>& words) {
  command app(trim_text);
  std::string process;
  std::string keep = "0";
  bool json = false;
  app.option("pid PID", process, "Process id")->required();
  app.option("--keep SIZE", keep, "Bytes of free pages that stay (0), with K, M or G",
             byte_size(0, std::uint64_t{1} << 60));
  app.add_flag("--json", json, "Print one JSON object");
  if (!parse_options(app, words)) return exit_code::success;
  const std::uint64_t bytes = trim_process(process_of(process), parse_byte_size(keep));
  json ? fmt::print("{}\n", json_text({{"given_back_bytes", bytes}}))
       : fmt::print("given back: {}\n", profiler::say_bytes(static_cast<double>(bytes)));
  return exit_code::success;
}

int cmd_set(const std::vector<std::string>& words) {
  command app(set_text);
  std::string word;
  std::vector<std::string> changes;
  bool json = false;
  app.option("pid PID", word, "Process id")->required();
  app.option("changes OPTION=VALUE", changes, "Options and their new values");
  app.add_flag("--json", json, "Print the options as a JSON array");
  if (!parse_options(app, words)) return exit_code::success;
  const pid_t process = process_of(word);
  for (const std::string& change : changes) {
    if (change.find('=') == std::string::npos || change.find('\n') != std::string::npos)
      throw cli_error(exit_code::usage, fmt::format("'{}' is not OPTION=VALUE", profiler::printable(change)),
                      fmt::format("Its options: tarn set {}", process));
  }
  for (const std::string& change : changes) {
    const std::string now = set_option(process, change);
    if (!json) fmt::print("{}\n", now);
  }
  if (json) {
    print_json(options_of(process));
  } else if (changes.empty()) {
    print_options(options_of(process));
  }
  return exit_code::success;
}

}  // namespace tarn::cli
