// SPDX-License-Identifier: MIT
// The `tarn` command: picks the command by its first word and turns failures into messages.
#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "cli_error.hpp"
#include "commands.hpp"
#include "cost_worker.hpp"
#include "output_file.hpp"
#include "replay_rounds.hpp"
#include "text.hpp"

namespace tarn::cli {

namespace {

constexpr const char* help_text =
    "tarn: a memory toolkit for C and C++ programs on Linux\n"
    "\n"
    "Usage: tarn COMMAND ...\n"
    "\n"
    "  run      start a program on tarn\n"
    "  compare  measure a program under the system's malloc, tarn and other allocators\n"
    "  cost     measure what large buffers cost, or watch what page faults cost\n"
    "  profile  record what a program's memory allocation costs, and who pays it\n"
    "  attach   record a program that runs already;  detach ends that\n"
    "  dump     write what a recording has so far\n"
    "  doctor   what this system lets a profile see, and how to see more\n"
    "  report   a profile as one HTML file that needs no network\n"
    "  advise   what would make a recorded program's memory allocation cheaper\n"
    "  prove    run a recorded program again under all that changes no code, and measure what it saves\n"
    "  apply    try that advice on the program as it is\n"
    "  replay   do what a profile has recorded again, under every malloc and from pools\n"
    "  top      what memory allocation costs a program while it runs\n"
    "  sites    the call sites of a profile as a table\n"
    "  rss      what the resident memory of a process consisted of\n"
    "  leaks    what a program had not freed at its end, and what of it is lost\n"
    "  flame    the call paths of a profile as a tree\n"
    "  merge    profiles of several processes or runs as one\n"
    "  diff     what changed from one profile to another, with limits\n"
    "  export   a profile for pprof, heaptrack, flame graphs, Prometheus, or as JSON\n"
    "  options  tarn's options with their effective values\n"
    "  help     this text, or a command's: tarn help COMMAND\n"
    "\n"
    "Examples:\n"
    "  tarn run -- python3 script.py\n"
    "  tarn run --stats -- make\n"
    "  tarn compare -- ./my_program input.dat\n"
    "  tarn cost\n"
    "  tarn profile -- ./my_program input.dat\n"
    "  TARN_DECAY_MS=5000 tarn options\n"
    "\n"
    "Every command takes --help and --json. tarn --version prints the version.\n"
    "Exit codes: run passes the program's on; otherwise 0 success, 1 results differ between\n"
    "allocators or a limit of diff is exceeded, or leaks, 2 usage, 3 the program fails under every allocator, 125 tarn refuses,\n"
    "126 not executable, 127 not found.\n";

struct command {
  const char* name;
  int (*run)(const std::vector<std::string>& words);
};

constexpr command commands[] = {
    {"run", cmd_run},       {"compare", cmd_compare}, {"cost", cmd_cost},     {"profile", cmd_profile},
    {"attach", cmd_attach}, {"detach", cmd_detach},   {"dump", cmd_dump},     {"doctor", cmd_doctor},
    {"report", cmd_report}, {"advise", cmd_advise},   {"prove", cmd_prove},   {"apply", cmd_apply},
    {"replay", cmd_replay}, {"top", cmd_top},         {"sites", cmd_sites},   {"flame", cmd_flame},
    {"merge", cmd_merge},   {"diff", cmd_diff},       {"export", cmd_export}, {"rss", cmd_rss},
    {"leaks", cmd_leaks},   {"options", cmd_options}};

const command& find_command(const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const command& candidate : commands) {
    if (name == candidate.name) return candidate;
    names.emplace_back(candidate.name);
  }
  const std::string near = nearest_word(name, names);
  throw cli_error(exit_code::usage, fmt::format("unknown command '{}'", name),
                  near.empty() ? "All commands: tarn help" : fmt::format("Did you mean 'tarn {}'?", near));
}

int dispatch(std::vector<std::string> words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", help_text);
    return exit_code::usage;
  }
  const std::string first = words.front();
  words.erase(words.begin());
  if (first == print_preloaded_options_word) return print_preloaded_options();
  if (first == cost_worker_word) return cost_worker(words);
  if (first == replay_worker_word) return replay_worker(words);
  if (first == "--version" || first == "-V") {
    fmt::print("tarn {}\n", TARN_CLI_VERSION);
    return exit_code::success;
  }
  const bool wants_help = first == "help" || first == "--help" || first == "-h";
  if (wants_help && (words.empty() || words.front() == "help")) {
    fmt::print("{}", help_text);
    return exit_code::success;
  }
  if (wants_help) return find_command(words.front()).run({"--help"});
  return find_command(first).run(words);
}

// Only tarn's own words count, which are those before "--".
bool wants_json(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--json") != end;
}

// A freed block of at least this size is returned to the system at once. By default glibc raises this threshold to
// the size of the largest freed block, and the memory of columns that were read would stay resident.
constexpr int least_returned_bytes = 256 << 10;

}  // namespace

}  // namespace tarn::cli

int main(int count, char** values) {
  using namespace tarn::cli;
  mallopt(M_MMAP_THRESHOLD, least_returned_bytes);
  // A file beyond RLIMIT_FSIZE is reported as an error instead of ending the process. Exec restores the default for
  // started programs.
  std::signal(SIGXFSZ, [](int) {});
  std::vector<std::string> words;
  for (int index = 1; index < count; ++index) words.emplace_back(values[index]);
  const bool json = wants_json(words);
  try {
    const int status = dispatch(words);
    flush_standard_output();
    return status;
  } catch (const closed_pipe&) {
    return closed_pipe::exit_status;
  } catch (const std::system_error& error) {  // fmt's, when it cannot print
    if (error.code().value() == EPIPE) return closed_pipe::exit_status;
    print_error(cli_error(exit_code::refused, error.what()), json);
    return exit_code::refused;
  } catch (const cli_error& error) {
    print_error(error, json);
    return error.code();
  } catch (const std::exception& error) {
    print_error(cli_error(exit_code::refused, error.what()), json);
    return exit_code::refused;
  }
}
