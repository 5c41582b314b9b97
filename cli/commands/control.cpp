// SPDX-License-Identifier: MIT
// tarn control: what a running process says and does at its control socket.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/control/control_client.hpp"
#include "cli/control/process_answers.hpp"
#include "cli/launch/accepted_values.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/export/pprof_names.hpp"
#include "profiler/format/openmetrics.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning control_exits[] = {{0, "done, or shown"}, usage_exit, refused_exit};

constexpr command_text control_text = {
    .name = "control",
    .summary = "Show or change the options of a running process; trim it; print its figures or samples.",
    .usage =
        "tarn control PID [OPTION=VALUE...]\ntarn control --trim [--keep SIZE] PID\n"
        "tarn control --metrics PID...\ntarn control --samples VIEW [-o FILE] PID",
    .examples =
        "  TARN_CONTROL=on tarn run -- ./server &    a process that can be asked\n"
        "  tarn control 4711                         its options\n"
        "  tarn control 4711 decay_ms=200            free memory goes back after 200 ms\n"
        "  tarn control --trim 4711                  all free pages and what its caches\n"
        "                                            can spare go back now\n"
        "  tarn control --trim --keep 64M 4711       64 MiB of free pages stay\n"
        "  tarn control --metrics 4711 4712          OpenMetrics text of both\n"
        "  tarn control --samples heap 4711          for go tool pprof: writes\n"
        "                                            tarn-4711-heap-1.pb.gz\n",
    .notes =
        "The process needs tarn's malloc and the option control (TARN_CONTROL=on), for\n"
        "--samples also the option profile (TARN_PROFILE=on). 'tarn serve' gives figures\n"
        "and samples over HTTP. --trim keeps objects of recyclers: to destroy them would\n"
        "run the program's code.\n",
    .exits = control_exits,
    .page = "docs/how-to/metrics.md",
};

struct control_arguments {
  std::vector<std::string> words;  // PID, and what follows it
  std::string keep = "0";
  std::string samples;
  std::string output;
  bool trim = false;
  bool metrics = false;
  bool json = false;
};

void print_options(const std::vector<process_option>& all) {
  text_table table({"", "", "", ""}, {0, 1, 2, 3});
  for (const process_option& each : all)
    table.add({each.name, each.value, each.source,
               each.is_settable ? each.accepts : "only before the program starts"});
  for (std::size_t index = 0; index < table.rows(); ++index) print_text(table.row(index, false) + "\n");
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

int show_metrics(const control_arguments& arguments) {
  if (arguments.json) {
    print_heaps(arguments.words);
    return exit_code::success;
  }
  std::vector<profiler::labelled_metrics> parts;
  for (const std::string& word : arguments.words) {
    const pid_t process = process_of(word);
    profiler::labelled_metrics part{"", metrics_of(process)};
    if (arguments.words.size() > 1)
      part.labels =
          profiler::written_labels({{"pid", std::to_string(process)}, {"program", name_of_process(process)}});
    parts.push_back(std::move(part));
  }
  fmt::print("{}", profiler::write_metrics(parts, profiler::metrics_format::openmetrics));
  return exit_code::success;
}

int trim(pid_t process, const control_arguments& arguments) {
  const std::uint64_t bytes = trim_process(process, parse_byte_size(arguments.keep));
  arguments.json ? fmt::print("{}\n", json_text({{"given_back_bytes", bytes}}))
                 : fmt::print("given back: {}\n", profiler::say_bytes(static_cast<double>(bytes)));
  return exit_code::success;
}

// The process's own samples, as pprof reads them.
int save_samples(pid_t process, const control_arguments& arguments) {
  require_file_name("-o", arguments.output);
  try {
    profiler::pprof_names names(static_cast<std::uint32_t>(process));
    const std::string samples = names.add(profile_of(process, arguments.samples));
    std::optional<output_file> file;
    if (arguments.output.empty()) {
      file.emplace("-o", fresh_name{fmt::format("tarn-{}-{}-", process, arguments.samples), ".pb.gz"});
    } else {
      file.emplace("-o", arguments.output);
    }
    profiler::packer packed(file->path(), [&file](const std::string& bytes) { file->write(bytes); });
    packed.write(samples);
    packed.finish();
    file->finish();
    arguments.json ? fmt::print("{}\n", json_text({{"path", file->path()}}))
                   : fmt::print("{}\n", profiler::printable(file->path()));
  } catch (const profiler::profile_error& error) {
    throw as_cli_error(error);
  }
  return exit_code::success;
}

int set_options(pid_t process, const control_arguments& arguments) {
  const std::vector<std::string> changes(arguments.words.begin() + 1, arguments.words.end());
  for (const std::string& change : changes) {
    if (change.find('=') == std::string::npos || change.find('\n') != std::string::npos)
      throw cli_error(exit_code::usage, fmt::format("'{}' is not OPTION=VALUE", profiler::printable(change)),
                      fmt::format("Its options: tarn control {}", process));
  }
  for (const std::string& change : changes) {
    const std::string now = set_option(process, change);
    if (!arguments.json) fmt::print("{}\n", now);
  }
  if (arguments.json) {
    print_json(options_of(process));
  } else if (changes.empty()) {
    print_options(options_of(process));
  }
  return exit_code::success;
}

}  // namespace

int cmd_control(const std::vector<std::string>& words) {
  command app(control_text);
  control_arguments arguments;
  app.option("pid PID...", arguments.words, "Process id, then OPTION=VALUE; with --metrics, process ids")
      ->required();
  CLI::Option* trims =
      app.add_flag("--trim", arguments.trim, "Make the process give its idle memory back now");
  CLI::Option* keep = app.option("--keep SIZE", arguments.keep,
                                 "With --trim: bytes of free pages that stay (0), with K, M or G",
                                 byte_size(0, std::uint64_t{1} << 60));
  CLI::Option* metrics =
      app.add_flag("--metrics", arguments.metrics, "Print memory figures as OpenMetrics text")
          ->excludes(trims);
  CLI::Option* samples =
      app.option("--samples VIEW", arguments.samples,
                 "Write the process's own samples for pprof: heap or allocs is shown first",
                 one_of({"heap", "allocs"}))
          ->excludes(trims)
          ->excludes(metrics);
  CLI::Option* output = app.option("-o,--output FILE", arguments.output,
                                   "With --samples: name of the file (tarn-PID-VIEW-N.pb.gz)");
  app.add_flag("--json", arguments.json, "Print JSON");
  if (!parse_options(app, words)) return exit_code::success;
  require_fitting({{keep, {"--trim"}}, {output, {"--samples"}}},
                  arguments.trim         ? "--trim"
                  : samples->count() > 0 ? "--samples"
                                         : "",
                  "control");
  if (arguments.metrics) return show_metrics(arguments);
  const pid_t process = process_of(arguments.words.front());
  const bool is_changed = arguments.words.size() > 1;
  if (is_changed && (arguments.trim || samples->count() > 0)) {
    throw cli_error(exit_code::usage,
                    fmt::format("unexpected word '{}'", profiler::printable(arguments.words[1])),
                    "With --trim and --samples give one process id.");
  }
  if (arguments.trim) return trim(process, arguments);
  return samples->count() > 0 ? save_samples(process, arguments) : set_options(process, arguments);
}

}  // namespace tarn::cli
