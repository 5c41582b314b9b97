// SPDX-License-Identifier: MIT
// The `tarn` command: picks the command by its first word and turns failures into messages.
#include <dlfcn.h>
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

#include "cli/commands/commands.hpp"
#include "cli/compare/replay_rounds.hpp"
#include "cli/cost/cost_worker.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr const char* help_text =
    "tarn: a memory toolkit for C and C++ programs on Linux\n"
    "\n"
    "Usage: tarn COMMAND ...\n"
    "\n"
    "  run      start a program on tarn\n"
    "  compare  measure a program under the system's malloc, tarn and other mallocs\n"
    "  cost     measure what large buffers cost, or watch what page faults cost\n"
    "  profile  record what memory allocation costs a program, and where\n"
    "  attach   record a program that is already running\n"
    "  detach   end such a recording\n"
    "  dump     write the data of a recording so far to a file\n"
    "  doctor   show what a profile can record on this system, and how to record more\n"
    "  report   write a profile as one HTML file that needs no network\n"
    "  advise   list changes that would make a recorded program allocate more cheaply\n"
    "  prove    run the recorded program with each change that needs no editing, and\n"
    "           measure what it saves\n"
    "  apply    run a program with the changes of a plan, and measure what they save\n"
    "  replay   replay the recorded allocations under every malloc and from pools\n"
    "  top      show what memory allocation costs a program while it runs\n"
    "  sites    show the call sites of a profile as a table\n"
    "  rss      show what the resident memory of a process consisted of\n"
    "  leaks    show the blocks that a program had not freed, and which were lost\n"
    "  flame    show the call paths of a profile as a tree\n"
    "  merge    merge profiles of several processes or runs into one\n"
    "  diff     compare two profiles; fail if a limit is exceeded\n"
    "  export   write a profile for pprof, heaptrack, flame graphs, Prometheus, JSON\n"
    "  options  show tarn's options with their effective values\n"
    "  help     show this text, or the help of a command: tarn help COMMAND\n"
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
    "\n"
    "Exit codes: run, profile and top return the program's own. Otherwise:\n"
    "  0    success\n"
    "  1    compare, apply, prove: results differ; diff: a limit is exceeded;\n"
    "       leaks: a block is lost; doctor: something is missing\n"
    "  2    wrong usage\n"
    "  3    the program fails under every allocator\n"
    "  125  tarn cannot do it; the message says why\n"
    "  126  the program is not executable\n"
    "  127  the program is not found\n";

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

// A freed block of at least this size is returned to the system at once. By default glibc raises this threshold to
// the size of the largest freed block, and the memory of columns that were read would stay resident.
constexpr int least_returned_bytes = 256 << 10;

// Not for workers, which measure the malloc that programs have, and not where tarn is preloaded: it has no such option.
void return_freed_memory() {
  if (dlsym(RTLD_DEFAULT, "tarn_version") == nullptr) mallopt(M_MMAP_THRESHOLD, least_returned_bytes);
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
  return_freed_memory();
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

}  // namespace

}  // namespace tarn::cli

int main(int count, char** values) {
  using namespace tarn::cli;
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
