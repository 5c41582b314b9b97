// SPDX-License-Identifier: MIT
// tarn export: a profile in the format of another tool.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/profile_view.hpp"
#include "profiler/export/exports.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::cli {

namespace {

constexpr const char* export_footer =
    "Examples:\n"
    "  tarn export --pprof server.tarn -o s.pb.gz && go tool pprof -http=: s.pb.gz\n"
    "  tarn export --heaptrack server.tarn -o s.zst && heaptrack_gui s.zst\n"
    "  tarn export --collapsed --metric peak server.tarn | flamegraph.pl > peak.svg\n"
    "  tarn export --prometheus --top 20 server.tarn |\n"
    "      curl --data-binary @- http://gateway/metrics/job/server\n"
    "\n"
    "The file for pprof has one sample type per metric (-sample_index=NAME): cost,\n"
    "malloc, hidden, faults, allocations, bytes, live, live_bytes, peak. Pyroscope,\n"
    "Parca, Perfetto and speedscope read it, too.\n"
    "Exit codes: 0 written; 2 usage; 125 the file cannot be read, or the output\n"
    "cannot be written.\n";

struct export_arguments {
  std::string path;
  std::string output = "-";
  std::string process;
  std::string metric_name = "cost";
  std::size_t top = 100;
};

void write_pprof(const profiler::profile& p, const export_arguments&, output_file& output) {
  output.write(profiler::export_pprof(p));
}

void write_collapsed(const profiler::profile& p, const export_arguments& arguments, output_file& output) {
  profiler::export_collapsed(p, metric_named("--metric", arguments.metric_name),
                             [&output](std::string_view piece) { output.write(piece); });
}

void write_heaptrack(const profiler::profile& p, const export_arguments& arguments, output_file& output) {
  profiler::packer pack(arguments.output, [&output](const std::string& piece) { output.write(piece); });
  const profiler::heaptrack_outcome outcome =
      profiler::export_heaptrack(p, arguments.path, [&pack](std::string_view piece) { pack.write(piece); });
  pack.finish();
  if (!outcome.from_events) {
    print_note(
        "the profile does not contain all events (only tarn profile --mode full records them); "
        "their order was derived from the sums of each site, so \"temporary\" has no meaning");
  }
  if (outcome.each_stands_for > 1) {
    print_note(
        fmt::format("each allocation in the output stands for about {0:.0f} of its site: bytes are right, "
                    "counts are {0:.0f} times too low",
                    outcome.each_stands_for));
  }
}

void write_json(const profiler::profile& p, const export_arguments&, output_file& output) {
  profiler::export_json(p, [&output](std::string_view piece) { output.write(piece); });
}

void write_prometheus(const profiler::profile& p, const export_arguments& arguments, output_file& output) {
  output.write(profiler::export_prometheus(p, arguments.top));
}

struct export_format {
  const char* option;
  const char* help;
  profiler::profile_detail detail;  // the parts of the profile that the format contains
  const char* binary_name;          // null: text, which a terminal can show
  void (*write)(const profiler::profile& p, const export_arguments& arguments, output_file& output);
};

constexpr export_format formats[] = {
    {"--pprof", "Format: pprof's profile.proto, compressed by gzip", profiler::profile_detail::figures,
     "profile.pb.gz", write_pprof},
    {"--collapsed", "Format: collapsed stacks, one line per call path, for flame graphs",
     profiler::profile_detail::figures, nullptr, write_collapsed},
    {"--heaptrack", "Format: heaptrack's text; compressed if OUT ends in .zst or .gz",
     profiler::profile_detail::all, nullptr, write_heaptrack},
    {"--json", "Format: JSON with all figures of all sites", profiler::profile_detail::all, nullptr,
     write_json},
    {"--prometheus", "Format: Prometheus' text, by site", profiler::profile_detail::figures, nullptr,
     write_prometheus},
};

std::string names_of_formats() {
  std::vector<std::string> names;
  for (const export_format& each : formats) names.emplace_back(each.option);
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

// The format whose option was given.
const export_format& chosen_format(const CLI::App& app) {
  const export_format* chosen = nullptr;
  for (const export_format& each : formats) {
    if (app.count(each.option) == 0) continue;
    if (chosen != nullptr) {
      throw cli_error(exit_code::usage, "more than one format given",
                      "Give one of " + names_of_formats() + ".");
    }
    chosen = &each;
  }
  if (chosen == nullptr)
    throw cli_error(exit_code::usage, "no format given", "Give one of " + names_of_formats() + ".");
  return *chosen;
}

// Refuses `option` with a format other than `format`; `others` says what the others contain.
void require_format(const CLI::App& app, const export_format& chosen, std::string_view option,
                    std::string_view format, std::string_view others) {
  if (app.count(std::string(option)) == 0 || chosen.option == format) return;
  throw cli_error(exit_code::usage, fmt::format("{} requires {}", option, format),
                  fmt::format("The other formats contain all {}; omit {}.", others, option));
}

}  // namespace

int cmd_export(const std::vector<std::string>& words) {
  CLI::App app{"Write a profile in the format of another tool.", "export"};
  set_usage(app, "tarn export FORMAT [OPTIONS] FILE");
  export_arguments arguments;
  for (const export_format& each : formats) app.add_flag(each.option, each.help);
  app.add_option("file", arguments.path, "A profile that tarn profile wrote")
      ->required()
      ->option_text("FILE");
  app.add_option("-o,--output", arguments.output, "Write to this file (standard output)")->option_text("OUT");
  app.add_option("-m,--metric", arguments.metric_name, "With --collapsed: the metric (cost)")
      ->option_text("METRIC");
  app.add_option("--top", arguments.top, "With --prometheus: number of sites; all others are one (100)")
      ->check(CLI::Range(1, 100000))
      ->option_text("N");
  add_process_option(app, arguments.process);
  app.footer(export_footer);
  if (!parse_options(app, words, exit_code::usage)) return exit_code::success;
  const export_format& format = chosen_format(app);
  require_format(app, format, "--metric", "--collapsed", "metrics");
  require_format(app, format, "--top", "--prometheus", "sites");
  metric_named("--metric", arguments.metric_name);
  if (format.binary_name != nullptr && arguments.output == "-" && isatty(STDOUT_FILENO) != 0) {
    throw cli_error(exit_code::usage, "this format is binary and is not written to a terminal",
                    fmt::format("Give a file name: -o {}", format.binary_name));
  }
  const profiler::profile p = load_for_command(arguments.path, arguments.process, format.detail);
  output_file output("--output", arguments.output);
  try {
    format.write(p, arguments, output);
  } catch (const profiler::profile_error& error) {
    throw cli_error(exit_code::refused, error.what());
  }
  return exit_code::success;
}

}  // namespace tarn::cli
