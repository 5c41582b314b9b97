// SPDX-License-Identifier: MIT
#include "cli/compare/repeat.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "cli/compare/own_command.hpp"
#include "cli/launch/environment.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/opened_elf.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

using profiler::file_identity;
using profiler::input_kind;
using profiler::printable;
using profiler::recorded_command;

namespace {

constexpr const char* how_to_name_input =
    "Give the input of the repeated runs: --stdin FILE (for no input: --stdin /dev/null)";
// Variables of a shell, terminal or session, which seldom change what a program does.
constexpr const char* ignored_variables[] = {
    "_",   "PWD",      "OLDPWD",  "SHLVL",      "TERM",           "COLUMNS",       "LINES",  "WINDOWID",
    "PS1", "HISTFILE", "SSH_TTY", "SSH_CLIENT", "SSH_CONNECTION", "SSH_AUTH_SOCK", "DISPLAY"};

bool is_null_device(const struct stat& status) {
  return S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

file_identity identity_of(const struct stat& status, const std::string& path) {
  file_identity identity;
  if (!path.empty()) identity.build_id = profiler::build_id_of(path);
  identity.size = static_cast<std::uint64_t>(status.st_size);
  identity.changed_ns = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                        static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
  return identity;
}

void describe_input(recorded_command& command) {
  struct stat status = {};
  if (fstat(STDIN_FILENO, &status) != 0 || is_null_device(status)) return;
  if (S_ISREG(status.st_mode)) {
    std::error_code error;
    command.input = input_kind::file;
    command.input_path = std::filesystem::read_symlink("/proc/self/fd/0", error).string();
    command.input_identity = identity_of(status, "");
    command.input_offset = static_cast<std::uint64_t>(std::max<off_t>(0, lseek(STDIN_FILENO, 0, SEEK_CUR)));
  } else if (isatty(STDIN_FILENO) == 1) {
    command.input = input_kind::terminal;
  } else {
    command.input =
        S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ? input_kind::pipe : input_kind::device;
  }
}

[[noreturn]] void refuse(const std::string& problem, const std::string& advice = {}) {
  throw cli_error(exit_code::refused, problem, advice);
}

void require_same_program(const recorded_command& command) {
  struct stat status = {};
  if (stat(command.path.c_str(), &status) != 0) {
    refuse(fmt::format("the program {} does not exist any more: {}", printable(command.path),
                       std::strerror(errno)),
           "Record it again: tarn profile");
  }
  if (identity_of(status, command.path) == command.identity) return;
  refuse(fmt::format("the program {} has changed since it was recorded", printable(command.path)),
         "Record it again: tarn profile");
}

void require_same_input(const recorded_command& command) {
  if (command.input != input_kind::file) return;
  struct stat status = {};
  if (stat(command.input_path.c_str(), &status) != 0) {
    refuse(fmt::format("its standard input {} does not exist any more: {}", printable(command.input_path),
                       std::strerror(errno)),
           how_to_name_input);
  }
  if (identity_of(status, "") == command.input_identity) return;
  refuse(
      fmt::format("its standard input {} has changed since it was recorded", printable(command.input_path)),
      how_to_name_input);
}

void require_success(const nlohmann::json& meta) {
  const profiler::repeat_refusal found = profiler::repeat_refusal_of(meta);
  if (found.problem.empty()) return;
  refuse(found.problem, "tarn prove needs a run that succeeds. For a server: tarn prove --load COMMAND");
}

// This process's variables by name, without those of tarn that are not kept.
std::map<std::string, std::string> present_variables() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = text.substr(0, equals);
    if (profiler::is_kept_variable(name) || !name.starts_with("TARN_")) all[name] = text.substr(equals + 1);
  }
  return all;
}

// Names of the variables that differ from the recorded environment.
std::vector<std::string> changed_variables(const recorded_command& command) {
  std::map<std::string, std::uint16_t> digests;
  for (const auto& [name, value] : present_variables()) {
    if (!profiler::is_kept_variable(name)) digests[name] = profiler::digest_of(value);
  }
  std::set<std::string> changed;
  for (const auto& [name, digest] : digests) {
    const auto before = command.digests.find(name);
    if (before == command.digests.end() || before->second != digest) changed.insert(name);
  }
  for (const auto& [name, digest] : command.digests) {
    if (!digests.contains(name)) changed.insert(name);
  }
  for (const char* name : ignored_variables) changed.erase(name);
  return {changed.begin(), changed.end()};
}

void restore_variables(const recorded_command& command) {
  for (const auto& [name, value] : present_variables()) {
    if (profiler::is_kept_variable(name)) unsetenv(name.c_str());
  }
  for (const auto& [name, value] : command.variables) setenv(name.c_str(), value.c_str(), 1);
  if (getenv("PWD") != nullptr) setenv("PWD", command.directory.c_str(), 1);
}

}  // namespace

recorded_command describe_start(const std::string& path, const std::vector<std::string>& words) {
  recorded_command command;
  std::error_code error;
  command.directory = std::filesystem::current_path(error).string();
  command.path = std::filesystem::absolute(path, error).string();
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) command.identity = identity_of(status, path);
  command.words = words;
  describe_input(command);
  command.output_to_nothing = fstat(STDOUT_FILENO, &status) != 0 || is_null_device(status);
  for (const auto& [name, value] : present_variables()) {
    if (profiler::is_kept_variable(name)) {
      command.variables.emplace_back(name, value);
    } else {
      command.digests[name] = profiler::digest_of(value);
    }
  }
  command.seal = seal_of(command);
  return command;
}

std::string input_refusal(const recorded_command& command) {
  switch (command.input) {
    case input_kind::pipe: return "its standard input was a pipe, whose content is not recorded";
    case input_kind::device: return "its standard input was a device, whose content is not recorded";
    case input_kind::nothing:
    case input_kind::terminal:
    case input_kind::file: break;
  }
  return {};
}

recorded_command load_repeatable(const std::string& path, const profiler::profile& p,
                                 const repeat_wishes& wishes) {
  const auto command = profiler::load_command(path);
  if (!command) {
    refuse(
        fmt::format("{} does not say how its program was started", path),
        "tarn prove repeats what tarn profile has started; this file is from tarn top, tarn attach or a child process, "
        "or an older tarn wrote it. Record it: tarn profile -- PROGRAM ARG...");
  }
  if (!wishes.is_server) require_success(p.meta);
  // Before anything that the file names is looked at.
  if (!is_own(*command))
    require_consent(path, "the command in it", describe_command(*command), wishes.trusted);
  require_same_program(*command);
  if (wishes.input.empty()) {
    if (const std::string refusal = input_refusal(*command); !refusal.empty())
      refuse(refusal, how_to_name_input);
    require_same_input(*command);
  }
  return *command;
}

run_settings restore_start(const recorded_command& command, const repeat_wishes& wishes,
                           std::vector<std::string>& notes) {
  run_settings settings;
  // Make the path absolute before the directory changes.
  if (!wishes.input.empty()) settings.input = std::filesystem::absolute(wishes.input).string();
  if (wishes.input.empty() && command.input == input_kind::file) {
    settings.input = command.input_path;
    settings.input_offset = static_cast<std::int64_t>(command.input_offset);
  }
  if (wishes.input.empty() && command.input == input_kind::terminal) {
    notes.emplace_back(
        "its standard input was a terminal, whose input is not recorded: the runs read /dev/null; another "
        "input: tarn prove --stdin FILE");
  }
  settings.output_to_file = !command.output_to_nothing;
  if (chdir(command.directory.c_str()) != 0) {
    refuse(fmt::format("its working directory {} cannot be entered: {}", printable(command.directory),
                       std::strerror(errno)));
  }
  const std::vector<std::string> changed = changed_variables(command);
  if (!changed.empty()) {
    notes.push_back(
        printable("these environment variables have changed since the recording; the program runs with their "
                  "present values: " +
                  join(changed, ", ")));
  }
  restore_variables(command);
  return settings;
}

}  // namespace tarn::cli
