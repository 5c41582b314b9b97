// SPDX-License-Identifier: MIT
// tarn export: a profile in the format of another tool.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <optional>
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

constexpr exit_meaning export_exits[] = {{0, "written"}, usage_exit, damaged_exit, refused_exit};

constexpr command_text export_text = {
    .name = "export",
    .summary = "Write a profile for SQL, pprof, heaptrack, flame graphs, Prometheus, JSON.",
    .usage = "tarn export FORMAT [OPTIONS] PROFILE",
    .examples =
        "  tarn export --pprof server.prof -o s.pb.gz && go tool pprof -http=: s.pb.gz\n"
        "  tarn export --sqlite server.prof -o s.sqlite && sqlite3 s.sqlite\n"
        "  tarn export --heaptrack server.prof -o s.zst && heaptrack_gui s.zst\n"
        "  tarn export --collapsed --metric peak server.prof | flamegraph.pl > peak.svg\n"
        "  tarn export --prometheus -n 20 server.prof |\n"
        "      curl --data-binary @- http://gateway/metrics/job/server\n",
    .notes =
        "The file for pprof has one sample type per metric (-sample_index=NAME): cost,\n"
        "malloc, hidden, faults, allocations, bytes, live, live_bytes, peak. Pyroscope,\n"
        "Parca, Perfetto and speedscope read it, too. Tables of --sqlite:\n"
        "docs/reference/sqlite.md\n",
    .exits = export_exits,
};

struct export_arguments {
  std::string path;
  std::string output = "-";
  std::string process;
  std::string metric_name = "cost";
  std::size_t top = 100;
};

using profiler::export_format;

std::string names_of_formats() {
  std::vector<std::string> names;
  for (const export_format& each : profiler::export_formats) names.emplace_back(each.option);
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

// The format whose option was given.
const export_format& chosen_format(const command& app) {
  const export_format* chosen = nullptr;
  for (const export_format& each : profiler::export_formats) {
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
void require_format(const command& app, const export_format& chosen, std::string_view option,
                    std::string_view format, std::string_view others) {
  if (app.count(std::string(option)) == 0 || chosen.option == format) return;
  throw cli_error(exit_code::usage, fmt::format("{} requires {}", option, format),
                  fmt::format("The other formats contain all {}; omit {}.", others, option));
}

}  // namespace

int cmd_export(const std::vector<std::string>& words) {
  command app(export_text);
  export_arguments arguments;
  for (const export_format& each : profiler::export_formats) app.add_flag(each.option, each.help);
  app.option("profile PROFILE", arguments.path, "A profile of tarn profile, a black box, or a core file")
      ->required();
  app.option("-o,--output FILE", arguments.output, "Write to this file (standard output)");
  app.option("-m,--metric METRIC", arguments.metric_name, "With --collapsed: the metric (cost)",
             one_of(metric_words()));
  app.option("-n,--rows N", arguments.top, "With --prometheus: number of sites; all others are one (100)",
             whole_number(1, 100000));
  add_process_option(app, arguments.process);
  if (!parse_options(app, words)) return exit_code::success;
  const export_format& format = chosen_format(app);
  require_format(app, format, "--metric", "--collapsed", "metrics");
  require_format(app, format, "--rows", "--prometheus", "sites");
  const profiler::metric& what = *profiler::find_metric(arguments.metric_name);
  if (format.binary_name != nullptr && arguments.output == "-" && isatty(STDOUT_FILENO) != 0) {
    throw cli_error(exit_code::usage, "this format is binary and is not written to a terminal",
                    fmt::format("Give a file name: -o {}", format.binary_name));
  }
  profiler::profile p = load_for_command(arguments.path, arguments.process, format.detail);
  output_file output("--output", arguments.output);
  try {
    profiler::export_taker take = [&output](std::string_view piece) { output.write(piece); };
    std::optional<profiler::packer> pack;
    if (format.is_packed) {
      pack.emplace(arguments.output, take);
      take = [&pack](std::string_view piece) { pack->write(piece); };
    }
    const auto notes = format.write({p, arguments.path, what, arguments.top}, take);
    if (pack) pack->finish();
    output.finish();
    for (const std::string& note : notes.approximations) print_note(note);
    add_damage(arguments.path, p, notes.damage);
  } catch (const profiler::profile_error& error) {
    throw as_cli_error(error);
  }
  return exit_code::success;
}

}  // namespace tarn::cli
