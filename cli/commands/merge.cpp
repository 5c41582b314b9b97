// SPDX-License-Identifier: MIT
// tarn merge: the profiles of several processes, or of several runs, as one file.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/process_table.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/merge.hpp"
#include "profiler/model/packed_sites.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::cli {

namespace {

namespace fs = std::filesystem;

constexpr exit_meaning merge_exits[] = {{0, "merged"}, usage_exit, damaged_exit, refused_exit};

constexpr command_text merge_text = {
    .name = "merge",
    .summary = "Merge profiles of several processes or runs into one.",
    .usage = "tarn merge [OPTIONS] PROFILE... -o FILE",
    .examples =
        "  tarn profile -o build.prof -- make -j2; tarn merge build*.prof -o all.prof\n"
        "  tarn show all.prof                      call sites of all processes\n"
        "  tarn show all.prof --process cc1plus    of the processes with this name;\n"
        "                                          export and advise take it, too\n"
        "  tarn report all.prof                    a page with a menu to select a process\n",
    .notes =
        "Sites are joined by file and offset, or by function and line if the file is\n"
        "another build. Threads, and the figures of each process, stay separate. Single\n"
        "events stay in the files of the processes.\n",
    .exits = merge_exits,
};

constexpr std::size_t most_shown = 40;

void require_other_output(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& each : inputs) {
    std::error_code error;
    if (fs::equivalent(output, each, error)) {
      throw cli_error(exit_code::usage, fmt::format("-o {}: this is one of the files to merge", output),
                      "Give another file name.");
    }
  }
}

// The sites of one file at a time are in memory; those of the files before it are held packed.
struct merged_files {
  profiler::profile without_sites;
  profiler::packed_sites sites{true};
  profiler::figure_sums figures;
};

merged_files merge_in_turn(const std::vector<std::string>& inputs) {
  merged_files merged;
  profiler::profile_merger merger;
  add_files(merger, inputs, [&] {
    const std::vector<profiler::site> sites = merger.take_sites();
    merged.figures.add(sites);
    try {
      merged.sites.add(sites);
    } catch (const profiler::profile_error& error) {
      throw cli_error(exit_code::refused, error.what(), "Merge fewer files.");
    }
  });
  merged.without_sites = merger.take();
  return merged;
}

void store(merged_files& merged, const std::string& output) {
  try {
    profiler::table_writer file(output);
    profiler::store_profile(file, merged.without_sites, merged.sites);
  } catch (const profiler::file_not_opened& error) {
    throw as_cli_error(error);
  } catch (const profiler::profile_error& error) {
    // An incomplete profile is useless, and what the file held before is lost by now.
    std::error_code ignored;
    if (fs::is_regular_file(output, ignored)) fs::remove(fs::canonical(output, ignored), ignored);
    throw as_cli_error(error);
  }
}

}  // namespace

int cmd_merge(const std::vector<std::string>& words) {
  command app(merge_text);
  std::vector<std::string> inputs;
  std::string output;
  bool json = false;
  app.option("profiles PROFILE...", inputs, "Profiles that tarn profile or tarn merge wrote")->required();
  app.option("-o,--output FILE", output, "The merged profile")->required();
  app.add_flag("--json", json, "Print the result as one JSON object");
  if (!parse_options(app, words)) return exit_code::success;
  require_file_name("-o", output);
  require_other_output(output, inputs);
  merged_files merged = merge_in_turn(inputs);
  store(merged, output);
  const auto processes = processes_in(merged.figures.by_process(merged.without_sites.processes));
  const auto sum = sum_of(processes);
  if (json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& each : processes) {
      rows.push_back(as_json(each));
      rows.back().erase("file");
    }
    const nlohmann::json whole = {{"output", profiler::printable(output)},
                                  {"files", inputs.size()},
                                  {"cost_ns", sum.charged.total()},
                                  {"cpu_ns", sum.cpu_ns},
                                  {"processes", rows}};
    print_json_object(whole);
    return exit_code::success;
  }
  const std::string cost =
      sum.cpu_ns > 0 ? fmt::format("; memory cost {} of {} processor time",
                                   profiler::say_time(sum.charged.total()), profiler::say_time(sum.cpu_ns))
                     : "";
  print_text(fmt::format("{}: {:.0f} processes of {} files{}\n{}", profiler::printable(output), sum.images,
                         inputs.size(), cost,
                         render_processes(processes, most_shown, false, terminal_width(STDOUT_FILENO))));
  return exit_code::success;
}

}  // namespace tarn::cli
