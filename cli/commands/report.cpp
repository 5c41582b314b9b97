// SPDX-License-Identifier: MIT
// tarn report: a profile as one HTML file that needs no network.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/commands/compared_files.hpp"
#include "cli/compare/contender.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/environment.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/profile_verdict.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/report/difference_data.hpp"
#include "profiler/report/report_file.hpp"
#include "profiler/report/source_lines.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning report_exits[] = {{0, "written"}, usage_exit, damaged_exit, refused_exit};

constexpr command_text report_text = {
    .name = "report",
    .summary = "Write a profile as one HTML file that needs no network.",
    .usage = "tarn report [OPTIONS] PROFILE...",
    .examples =
        "  tarn report tarn-server-4711.prof      write tarn-server-4711.html beside it\n"
        "  tarn report tarn-server-4711.prof --open   and show it in a browser\n"
        "  tarn report tarn-server-4711.prof -o report.html\n"
        "  tarn report build*.prof -o build.html  several processes, and a menu of them\n"
        "  tarn report --before old.prof new.prof  and what changed\n",
    .notes =
        "The page is one file and needs no network. It contains names of functions and\n"
        "files, source lines where they are found, and the program's arguments: read it\n"
        "before you pass it on.\n",
    .exits = report_exits,
    .page = "docs/reference/report.md",
};

struct report_arguments {
  std::vector<std::string> profiles;
  std::vector<std::string> before;
  std::string output;
  bool json = false;
  bool no_source = false;
  bool open = false;
};

// NAME.html beside the profile. An existing file is overwritten only if it is a report.
std::string usual_output(const std::string& profile) {
  std::string path = std::filesystem::path(profile).replace_extension(".html").string();
  std::ifstream file(path, std::ios::binary);
  if (!file) return path;
  std::string beginning(256, '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  if (beginning.empty() || profiler::begins_like_report(beginning)) return path;
  throw cli_error(exit_code::usage, fmt::format("{} exists and is not a report of tarn", path),
                  "Give another name, or this name to overwrite it: -o FILE");
}

void print_result(const report_arguments& arguments, const profiler::report_file& made,
                  const std::string& damage) {
  if (arguments.json) {
    const nlohmann::json outcome = {{"report", arguments.output},
                                    {"bytes", made.html.size()},
                                    {"sites", made.all_sites},
                                    {"named_sites", made.named_sites},
                                    {"damage", damage}};
    print_json_object(outcome);
    return;
  }
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(arguments.output, error);
  print_text(
      fmt::format("{}: {}, {} of {} call sites named one by one.{}\n", profiler::printable(arguments.output),
                  profiler::say_bytes(static_cast<double>(made.html.size())), made.named_sites,
                  made.all_sites, arguments.open || !is_file ? "" : " Open it in a browser, or use --open."));
}

nlohmann::json changes_since(const std::vector<std::string>& before, const std::string& after) {
  using side = compared_files::side;
  compared_files compared(before.size(), 1);
  for (const std::string& path : before) compared.add_times(path, side::before);
  compared.add_times(after, side::after);
  for (const std::string& path : before) compared.add(path, side::before);
  compared.add(after, side::after);
  return profiler::difference_data(compared.take());
}

constexpr const char* desktop_openers[] = {"xdg-open", "gio open", "sensible-browser", "x-www-browser"};

std::vector<std::string> commands(const environment& variables) {
  std::vector<std::string> all;
  std::istringstream list(variables.get("BROWSER").value_or(""));
  for (std::string one; std::getline(list, one, ':');) {
    if (!one.empty()) all.push_back(one);
  }
  if (all.empty()) all.assign(std::begin(desktop_openers), std::end(desktop_openers));
  return all;
}

// Replaces "%s" by the address, or adds it as the last word.
std::vector<std::string> words_of(const std::string& command, const std::string& address) {
  std::vector<std::string> words;
  std::istringstream text(command);
  bool is_placed = false;
  for (std::string word; text >> word;) {
    if (word == "%s") is_placed = true;
    words.push_back(word == "%s" ? address : word);
  }
  if (!is_placed) words.push_back(address);
  return words;
}

// How the program ended: a wait status. Throws cli_error if it cannot be started.
int run_opener(const std::vector<std::string>& words, const environment& variables) {
  child_request request{
      .path = locate_program(words.front(), variables), .arguments = words, .variables = variables};
  const held_signals signals{};
  return reap(start_child(request, signals.before()));
}

// Starts $BROWSER with the file, or else the first of the programs by which desktops open files, and returns once that
// has started or handed the file on. $BROWSER may have arguments, and several programs separated by ":". Throws cli_error
// (refused) if no program takes the file.
void open_in_browser(const std::string& path) {
  const environment variables = environment::current();
  const std::string address = std::filesystem::absolute(path).string();
  std::vector<std::string> failures;
  for (const std::string& command : commands(variables)) {
    const std::vector<std::string> words = words_of(command, address);
    try {
      const int status = run_opener(words, variables);
      if (status == 0) return;
      failures.push_back(fmt::format("{}: {}", words.front(), format_exit(status)));
    } catch (const cli_error& error) {
      if (error.code() != exit_code::not_found) failures.emplace_back(error.what());
    }
  }
  throw cli_error(exit_code::refused,
                  fmt::format("the page is written, but no browser could be opened ({})",
                              failures.empty() ? "none is installed" : join(failures, ", ")),
                  fmt::format("Open it yourself: file://{}", address));
}

}  // namespace

int cmd_report(const std::vector<std::string>& words) {
  report_arguments arguments;
  command app(report_text);
  app.option("profiles PROFILE...", arguments.profiles,
             "Profiles of tarn profile or tarn merge; several are merged")
      ->required();
  app.option("-o,--output FILE", arguments.output,
             "Name of the page (PROFILE with .html); -: standard output");
  app.option("--before FILE", arguments.before,
             "Show what changed since this profile of the same program; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--no-source", arguments.no_source,
               "Omit the source lines of each site, which are read from this system's files");
  app.add_flag("--open", arguments.open, "Open the page: by $BROWSER, or by the desktop's own browser");
  app.add_flag("--json", arguments.json, "Print the file's name and size as one JSON object");
  if (!parse_options(app, words)) return exit_code::success;
  if (arguments.profiles.size() > 1 && arguments.output.empty()) {
    throw cli_error(exit_code::usage, "several profiles are given, but no name for the page",
                    "Give it: -o FILE");
  }
  if (arguments.json && arguments.output == "-") {
    throw cli_error(exit_code::usage, "--json and -o - cannot both go to standard output",
                    "Give a file name for the page: -o FILE");
  }
  if (arguments.open && arguments.output == "-") {
    throw cli_error(exit_code::usage, "--open and -o - cannot be used together",
                    "Give a file name for the page: -o FILE");
  }
  if (!arguments.before.empty() && arguments.profiles.size() > 1) {
    throw cli_error(exit_code::usage, "--before takes one profile to compare with, not several",
                    "One file of several processes: tarn merge -o FILE PROFILE...");
  }
  // Loaded before the output is opened, so that an unreadable profile changes no file.
  profiler::profile loaded = arguments.profiles.size() > 1
                                 ? merge_files(arguments.profiles)
                                 : load_parts_for_command(arguments.profiles.front());
  if (arguments.output.empty()) arguments.output = usual_output(arguments.profiles.front());
  std::optional<output_file> output;
  output.emplace("-o", arguments.output);
  profiler::advice_settings settings;
  settings.mallocs = installed_mallocs();
  profiler::report_settings page;
  if (!arguments.no_source) page.most_source_bytes = profiler::source_limits().most_bytes;
  page.summary = [](const profiler::profile& p, const std::vector<profiler::advice>& actions) {
    const summary said = summarise(p, actions);
    return profiler::report_summary{said.problem, said.next};
  };
  if (loaded.mode == profiler::profile_mode::full && loaded.processes.empty()) {
    page.slices =
        profiler::slices_of(arguments.profiles.front(),
                            static_cast<std::uint64_t>(profiler::number_in(loaded.meta, "duration_ns")));
    add_damage(arguments.profiles.front(), loaded, page.slices.damage);
  }
  const std::string damage = loaded.damage;
  if (!arguments.before.empty()) page.changes = changes_since(arguments.before, arguments.profiles.front());
  const profiler::report_file made =
      loaded.processes.empty() ? profiler::render_report(loaded, profiler::advise(loaded, settings), page)
                               : profiler::render_report_of_processes(std::move(loaded), page);
  output->write(made.html);
  output->finish();  // the page stays, whatever happens to the browser
  if (arguments.output != "-") print_result(arguments, made, damage);
  if (arguments.open) {
    flush_standard_output();
    open_in_browser(arguments.output);
  }
  return exit_code::success;
}

}  // namespace tarn::cli
