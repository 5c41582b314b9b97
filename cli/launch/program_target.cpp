// SPDX-License-Identifier: MIT
#include "cli/launch/program_target.hpp"

#include <fmt/core.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "cli/launch/elf_file.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

// The kernel gives up on interpreters of interpreters at this depth.
constexpr int script_depth_limit = 5;
constexpr const char* windows_line_ends = "The script has Windows line ends; remove them.";
constexpr const char* default_path = "/usr/local/bin:/usr/bin:/bin";

std::vector<std::string> path_directories(const environment& variables) {
  std::istringstream list(variables.get("PATH").value_or(default_path));
  std::vector<std::string> directories;
  std::string entry;
  while (std::getline(list, entry, ':')) directories.push_back(entry.empty() ? "." : entry);
  return directories;
}

std::string suggestion_for(const std::string& name, const std::vector<std::string>& directories) {
  std::vector<std::string> known;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
      known.push_back(entry->path().filename().string());
    }
  }
  std::error_code error;
  if (fs::is_regular_file(name, error)) {
    return fmt::format("A file with this name is in the current folder; to start it: ./{}", name);
  }
  std::sort(known.begin(), known.end());
  const std::string near = nearest_word(name, known);
  if (near.empty()) return "Check its spelling and PATH, or give its path.";
  return fmt::format("Did you mean '{}'? Otherwise check PATH, or give its path.", near);
}

bool has_file_capabilities(const std::string& path) {
  // Header (4 bytes), then pairs of permitted and inheritable words.
  std::uint32_t words[6] = {};
  const ssize_t size = getxattr(path.c_str(), "security.capability", words, sizeof words);
  if (size < 12) return false;
  return words[1] != 0 || (size >= 20 && words[3] != 0);
}

// Options of glibc's loader that another word follows.
bool takes_word(const std::string& option) {
  constexpr const char* options[] = {"--library-path",
                                     "--glibc-hwcaps-prepend",
                                     "--glibc-hwcaps-mask",
                                     "--inhibit-rpath",
                                     "--audit",
                                     "--preload",
                                     "--argv0"};
  return std::find(std::begin(options), std::end(options), option) != std::end(options);
}

// Type 1 or 2: the letters AI in the header's padding.
bool is_app_image(const std::string& path) {
  char head[11] = {};
  std::ifstream(path, std::ios::binary).read(head, sizeof head);
  return head[8] == 'A' && head[9] == 'I' && (head[10] == 1 || head[10] == 2);
}

[[noreturn]] void refuse(const std::string& path, const std::string& problem, const std::string& advice) {
  throw cli_error(exit_code::refused, fmt::format("{} {}", path, problem), advice);
}

class target_finder {
 public:
  target_finder(const std::vector<std::string>& words, const environment& variables)
      : words_(words), variables_(variables) {}

  void follow(const std::string& path, int depth) {
    if (depth > script_depth_limit) {
      refuse(path, "is started through too many nested scripts",
             "The system starts at most 5 nested interpreters.");
    }
    const elf_summary summary = summarize(path);
    switch (summary.kind) {
      case file_kind::script: return follow_script(path, summary.script_line, depth);
      case file_kind::elf: return accept(path, summary);
      case file_kind::damaged_elf:
        throw cli_error(exit_code::not_executable,
                        fmt::format("{} is a damaged program: {}", path, summary.problem),
                        "Install or build it again.");
      case file_kind::empty:
      case file_kind::other: break;
    }
    throw cli_error(exit_code::not_executable,
                    fmt::format("{} is neither a program nor a script that begins with '#!'", path),
                    "Write '#!/bin/sh' into its first line, or start it by its interpreter: sh " + path);
  }

  std::vector<elf_program> programs;

 private:
  static elf_summary summarize(const std::string& path) {
    try {
      return summarize_file(path);
    } catch (const std::system_error& error) {
      refuse(path, "cannot be inspected: " + error.code().message(),
             "tarn must read a program to check that preloading takes effect in it; give yourself read "
             "permission.");
    }
  }

  void follow_script(const std::string& path, const std::string& line, int depth) {
    const std::size_t blank = line.find_first_of(" \t");
    const std::string interpreter = line.substr(0, blank);
    std::string argument;
    if (blank != std::string::npos) argument = line.substr(line.find_first_not_of(" \t", blank));
    if (interpreter.empty()) {
      throw cli_error(exit_code::not_executable,
                      fmt::format("the first line of {} names no interpreter", path),
                      "Write one after '#!', for example /bin/sh.");
    }
    if (access(interpreter.c_str(), X_OK) != 0) {
      throw cli_error(exit_code::not_executable,
                      fmt::format("the interpreter of {}, {}, cannot be started: {}", path, interpreter,
                                  std::strerror(errno)),
                      interpreter.ends_with('\r') ? windows_line_ends
                                                  : "Install it, or correct the script's first line.");
    }
    follow(interpreter, depth + 1);
    if (fs::path(interpreter).filename() == "env") follow_env(path, argument, depth);
  }

  // "#!/usr/bin/env [-S] [NAME=VALUE…] PROGRAM …": env replaces itself by PROGRAM.
  void follow_env(const std::string& path, const std::string& argument, int depth) {
    if (argument.ends_with('\r') && !argument.starts_with("-S")) {
      throw cli_error(exit_code::not_executable,
                      fmt::format("the interpreter of {}, {}, cannot be started: {}", path, argument,
                                  std::strerror(ENOENT)),
                      windows_line_ends);
    }
    std::istringstream words(argument);
    std::string word;
    while (words >> word) {
      if (word == "-i" || word == "-" || word == "--ignore-environment") {
        refuse(path, "clears the environment (env " + word + "), so nothing can be preloaded",
               "Start its interpreter directly.");
      }
      if (word.starts_with("-S") && word.size() > 2) word.erase(0, 2);
      if (word.front() == '-' || word.find('=') != std::string::npos) continue;
      return follow(locate_program(word, variables_), depth + 1);
    }
  }

  void accept(const std::string& path, const elf_summary& summary) {
    if (!summary.is_native()) {
      refuse(path, "is a program for " + summary.machine_name() + ", which tarn's library is not",
             "Use a build of the program for this machine.");
    }
    if (summary.interpreter.empty() && defines_symbol(path, "_rtld_global")) return follow_loader(path);
    if (summary.interpreter.empty()) {
      refuse(path, "is statically linked, so no library can be preloaded into it",
             is_app_image(path) ? fmt::format("It unpacks a program and starts that. Start it yourself: {} "
                                              "--appimage-extract, then squashfs-root/AppRun.",
                                              path)
                                : "Link it with libtarn.a, or link it dynamically.");
    }
    const std::string reason = secure_mode_reason(path);
    if (!reason.empty()) {
      refuse(path, reason + ", so the system ignores preloaded libraries",
             "Run a copy without that privilege, or link the program with tarn.");
    }
    const std::string loader = fs::path(summary.interpreter).filename().string();
    if (loader.starts_with("ld-musl")) {
      refuse(path, "is linked with musl, and this libtarn is built for glibc", "Link it with libtarn.a.");
    }
    if (!loader.starts_with("ld-linux") && !loader.starts_with("ld64.so") && !loader.starts_with("ld.so")) {
      refuse(path, "uses the dynamic loader " + summary.interpreter + ", which tarn does not know",
             "tarn can be preloaded by glibc's loader only.");
    }
    if (access(summary.interpreter.c_str(), X_OK) != 0) {
      refuse(path, "needs the dynamic loader " + summary.interpreter + ", which does not exist",
             "Install the C library that the program was built for.");
    }
    const bool known = std::any_of(programs.begin(), programs.end(),
                                   [&path](const elf_program& program) { return program.path == path; });
    if (!known) programs.push_back({path, summary.interpreter, true, {}});
  }

  // "ld-linux.so [OPTION…] PROGRAM ARG…"
  void follow_loader(const std::string& loader) {
    elf_program program{.interpreter = loader, .by_kernel = false};
    auto word = words_.begin() + 1;
    while (word < words_.end() && word->starts_with("--")) {
      const bool has_value = takes_word(*word);
      program.loader_words.push_back(*word++);
      if (has_value && word < words_.end()) program.loader_words.push_back(*word++);
    }
    if (word >= words_.end()) {
      refuse(loader, "is the dynamic loader, and no program follows it",
             "Give the program's path behind it.");
    }
    program.path = *word;
    if (program.path.find('/') == std::string::npos) {
      refuse(loader, "looks for " + program.path + " among the libraries",
             "Give the program's path: ./" + program.path);
    }
    const elf_summary summary = summarize(program.path);
    if (summary.kind != file_kind::elf || !summary.is_native() || !summary.has_dynamic) {
      refuse(program.path, "is no dynamically linked program, so the dynamic loader cannot start it",
             "Start it without " + loader + ".");
    }
    programs.push_back(std::move(program));
  }

  const std::vector<std::string>& words_;
  const environment& variables_;
};

}  // namespace

std::string locate_program(const std::string& name, const environment& variables) {
  std::error_code error;
  const auto problem_with = [&error](const std::string& path) -> std::string {
    if (fs::is_directory(path, error)) return "is a directory";
    if (access(path.c_str(), X_OK) == 0) return {};
    return "is not executable: " + std::string(std::strerror(errno));
  };
  std::string blocked;
  std::string blocked_path;
  if (name.find('/') != std::string::npos || name == "." || name == "..") {
    if (!fs::exists(name, error)) {
      throw cli_error(exit_code::not_found, fmt::format("no such program: {}", name), "Check the path.");
    }
    const std::string problem = problem_with(name);
    if (problem.empty()) return name;
    blocked = fmt::format("{} {}", name, problem);
    blocked_path = name;
  } else {
    const std::vector<std::string> directories = path_directories(variables);
    for (const std::string& directory : directories) {
      std::string candidate = (fs::path(directory) / name).string();
      if (name.empty() || !fs::exists(candidate, error)) continue;
      const std::string problem = problem_with(candidate);
      if (problem.empty()) return candidate;
      if (!blocked.empty()) continue;
      blocked = fmt::format("{} {}", candidate, problem);
      blocked_path = candidate;
    }
    if (blocked.empty()) {
      throw cli_error(exit_code::not_found, fmt::format("program not found: {}", name),
                      suggestion_for(name, directories));
    }
  }
  throw cli_error(exit_code::not_executable, blocked,
                  blocked.ends_with(" is a directory")
                      ? "Give the path of a program in it."
                      : "If it is a program or script, allow it: chmod +x " + blocked_path);
}

std::string secure_mode_reason(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return {};
  if (geteuid() != getuid() || getegid() != getgid()) return "would be started by a process with changed ids";
  struct statvfs mount = {};
  const bool ignored = (statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) ||
                       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  if (ignored) return {};
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid())
    return "is setuid (it runs as another user)";
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != getgid()) {
    return "is setgid (it runs as another group)";
  }
  if (getuid() != 0 && has_file_capabilities(path)) return "has file capabilities";
  return {};
}

program_target find_program(const std::vector<std::string>& words, const environment& variables) {
  program_target target;
  target.path = locate_program(words.front(), variables);
  target_finder finder(words, variables);
  finder.follow(target.path, 0);
  target.programs = std::move(finder.programs);
  return target;
}

}  // namespace tarn::cli
