// SPDX-License-Identifier: MIT
// The `tarn` command: picks the command by its first word and turns failures into messages.
#include <dlfcn.h>
#include <fmt/core.h>
#include <malloc.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/cost/cost_worker.hpp"
#include "cli/launch/peer.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/guarded_main.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

// Words that other tools have as commands, and what to do here.
struct foreign_word {
  std::string_view word;
  const char* hint;
};
constexpr foreign_word foreign_words[] = {
    {"version", "Print the version: tarn --version"},
    {"man", "Read the manual: man tarn"},
    {"manual", "Read the manual: man tarn"},
    {"record", "Record a profile: tarn profile -- PROGRAM ARG..."},
    {"stat", "Statistics of one run: tarn run --stats -- PROGRAM ARG..."},
    {"stats", "Statistics of one run: tarn run --stats -- PROGRAM ARG..."},
    {"sites", "Show a profile by call site: tarn show PROFILE"},
    {"tree", "Show a profile by call path: tarn show --by tree PROFILE"},
    {"leaks", "Show what was lost: tarn show --by leaks PROFILE, of tarn profile --mode full -- PROGRAM"},
    {"rss", "Show resident memory: tarn show --by rss PROFILE"},
    {"flame", "Flame graphs: tarn report PROFILE, or tarn export --collapsed PROFILE"},
    {"detach", "End a recording: tarn attach --stop PID"},
    {"options", "Options: tarn doctor --options; of a process: tarn control PID"},
    {"bench", "Compare allocators: tarn compare -- PROGRAM ARG..."},
    {"completion", "Completions for bash, zsh and fish are files of the installation, in share/"},
    {"completions", "Completions for bash, zsh and fish are files of the installation, in share/"},
};

const verb& find_verb(const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const verb& candidate : verbs()) {
    if (name == candidate.name) return candidate;
    names.emplace_back(candidate.name);
  }
  if (name.starts_with("-")) {
    throw cli_error(exit_code::usage, fmt::format("unknown option '{}' before the command", name),
                    "Options follow the command: tarn COMMAND OPTIONS. All commands: tarn help");
  }
  for (const foreign_word& foreign : foreign_words) {
    if (name == foreign.word)
      throw cli_error(exit_code::usage, fmt::format("unknown command '{}'", name), foreign.hint);
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

void refuse_more(const std::vector<std::string>& words, std::size_t most, const std::string& usage) {
  if (words.size() <= most) return;
  throw cli_error(exit_code::usage, fmt::format("unexpected word '{}'", words[most]), "Usage: " + usage);
}

// "--color WHEN" may also stand before the command.
std::vector<std::string> take_common_options(std::vector<std::string>& words) {
  std::vector<std::string> taken;
  while (!words.empty() && (words.front() == "--color" || words.front().starts_with("--color="))) {
    const std::size_t count = words.front() == "--color" && words.size() > 1 ? 2 : 1;
    const auto end = words.begin() + static_cast<std::ptrdiff_t>(count);
    taken.insert(taken.end(), words.begin(), end);
    words.erase(words.begin(), end);
  }
  return taken;
}

int print_help(const std::vector<std::string>& words) {
  refuse_more(words, 1, "tarn help [COMMAND]");
  if (!words.empty() && words.front() != "help" && words.front() != "--help" && words.front() != "-h")
    return find_verb(words.front()).run({"--help"});
  fmt::print("{}", render_overview(verbs()));
  return exit_code::success;
}

int run_verb(const std::string& name, const std::vector<std::string>& words) {
  const verb& chosen = find_verb(name);
  try {
    const int status = chosen.run(words);
    return status == exit_code::success && damage_was_told() ? exit_code::damaged_profile : status;
  } catch (const cli_error& error) {
    const bool is_passed = error.code() == exit_code::usage && chosen.passes_status;
    throw cli_error(is_passed ? exit_code::refused : error.code(), error.what(),
                    error.advice().empty() ? fmt::format("See: tarn {} --help", name) : error.advice());
  }
}

int dispatch(const std::vector<std::string>& all_words) {
  std::vector<std::string> words = all_words;
  std::vector<std::string> options = take_common_options(words);
  if (words.empty()) {
    write_message(render_overview(verbs()));
    return exit_code::usage;
  }
  const std::string first = words.front();
  words.erase(words.begin());
  if (first == print_preloaded_options_word) return print_preloaded_options();
  if (first == cost_worker_word) return cost_worker(words);
  if (first == hold_descriptors_word && words.size() == 1) hold_descriptors(words.front());
  if (first == print_manual_word) return print_manual(words);
  if (first == complete_word) {
    fmt::print("{}", completion_of(verbs(), words));
    return exit_code::success;
  }
  if (first == "--version" || first == "-V") {
    refuse_more(words, 0, "tarn --version");
    fmt::print("tarn {}\n", TARN_CLI_VERSION);
    return exit_code::success;
  }
  return_freed_memory();
  if (first == "help" || first == "--help" || first == "-h") return print_help(words);
  options.insert(options.end(), words.begin(), words.end());
  return run_verb(first, options);
}

}  // namespace

}  // namespace tarn::cli

int main(int count, char** values) { return tarn::cli::guarded_main(count, values, tarn::cli::dispatch); }
