// SPDX-License-Identifier: MIT
// tarn export: a profile in the format of another tool.
#include <fmt/core.h>
#include <unistd.h>

#include <string>
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
  bool pprof = false;
  bool collapsed = false;
  bool heaptrack = false;
  bool json = false;
  bool prometheus = false;
  std::string path;
  std::string output = "-";
  std::string process;
  std::string metric_name = "cost";
  std::size_t top = 100;
};

// Reads only the parts of the profile that the format contains.
profiler::profile_detail detail_for(const export_arguments& arguments) {
  return arguments.json || arguments.heaptrack ? profiler::profile_detail::all
                                               : profiler::profile_detail::figures;
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

void write_export(const profiler::profile& p, const export_arguments& arguments, output_file& output) {
  const auto take = [&output](std::string_view piece) { output.write(piece); };
  if (arguments.pprof) return output.write(profiler::export_pprof(p));
  if (arguments.collapsed) {
    return profiler::export_collapsed(p, metric_named("--metric", arguments.metric_name), take);
  }
  if (arguments.json) return profiler::export_json(p, take);
  if (arguments.prometheus) return output.write(profiler::export_prometheus(p, arguments.top));
  write_heaptrack(p, arguments, output);
}

}  // namespace

int cmd_export(const std::vector<std::string>& words) {
  CLI::App app{"Write a profile in the format of another tool.", "export"};
  set_usage(app, "tarn export FORMAT [OPTIONS] FILE");
  export_arguments arguments;
  app.add_flag("--pprof", arguments.pprof, "Format: pprof's profile.proto, compressed by gzip");
  app.add_flag("--collapsed", arguments.collapsed,
               "Format: collapsed stacks, one line per call path, for flame graphs");
  app.add_flag("--heaptrack", arguments.heaptrack,
               "Format: heaptrack's text; compressed if OUT ends in .zst or .gz");
  app.add_flag("--json", arguments.json, "Format: JSON with all figures of all sites");
  app.add_flag("--prometheus", arguments.prometheus, "Format: Prometheus' text, by site");
  app.add_option("file", arguments.path, "A profile that tarn profile wrote")
      ->required()
      ->option_text("FILE");
  app.add_option("-o,--output", arguments.output, "Write to this file (standard output)")->option_text("OUT");
  CLI::Option* metric =
      app.add_option("-m,--metric", arguments.metric_name, "With --collapsed: the metric (cost)")
          ->option_text("METRIC");
  CLI::Option* top =
      app.add_option("--top", arguments.top, "With --prometheus: number of sites; all others are one (100)")
          ->check(CLI::Range(1, 100000))
          ->option_text("N");
  add_process_option(app, arguments.process);
  app.footer(export_footer);
  if (!parse_options(app, words, exit_code::usage)) return exit_code::success;
  const int formats =
      arguments.pprof + arguments.collapsed + arguments.heaptrack + arguments.json + arguments.prometheus;
  if (formats != 1) {
    throw cli_error(exit_code::usage, formats == 0 ? "no format given" : "more than one format given",
                    "Give one of --pprof, --collapsed, --heaptrack, --json and --prometheus.");
  }
  if (metric->count() > 0 && !arguments.collapsed) {
    throw cli_error(exit_code::usage, "--metric requires --collapsed",
                    "The other formats contain all metrics; omit --metric.");
  }
  if (top->count() > 0 && !arguments.prometheus) {
    throw cli_error(exit_code::usage, "--top requires --prometheus",
                    "The other formats contain all sites; omit --top.");
  }
  metric_named("--metric", arguments.metric_name);
  if (arguments.pprof && arguments.output == "-" && isatty(STDOUT_FILENO) != 0) {
    throw cli_error(exit_code::usage, "pprof's format is binary and is not written to a terminal",
                    "Give a file name: -o profile.pb.gz");
  }
  const profiler::profile p = load_for_command(arguments.path, arguments.process, detail_for(arguments));
  output_file output("--output", arguments.output);
  try {
    write_export(p, arguments, output);
  } catch (const profiler::profile_error& error) {
    throw cli_error(exit_code::refused, error.what());
  }
  return exit_code::success;
}

}  // namespace tarn::cli
