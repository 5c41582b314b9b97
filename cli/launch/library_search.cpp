// SPDX-License-Identifier: MIT
#include "cli/launch/library_search.hpp"

#include <elf.h>
#include <fmt/core.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/architecture.hpp"
#include "cli/launch/elf_file.hpp"
#include "cli/launch/environment.hpp"
#include "cli/show/cli_error.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

// ld.so.conf may include further files; a chain longer than this is a loop.
constexpr int include_depth_limit = 8;

void read_loader_configuration(const std::string& path, int depth, std::vector<std::string>& directories) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) continue;
    if (word != "include") {
      if (word.front() == '/') directories.push_back(word);
      continue;
    }
    std::string pattern;
    if (depth >= include_depth_limit || !(words >> pattern)) continue;
    if (pattern.front() != '/') pattern = (fs::path(path).parent_path() / pattern).string();
    glob_t matches = {};
    if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
      for (std::size_t index = 0; index < matches.gl_pathc; ++index) {
        read_loader_configuration(matches.gl_pathv[index], depth + 1, directories);
      }
    }
    globfree(&matches);
  }
}

bool is_native_library(const std::string& path) {
  try {
    const elf_summary summary = summarize_file(path);
    return summary.kind == file_kind::elf && summary.type == ET_DYN && summary.is_native();
  } catch (const std::system_error&) {
    return false;
  }
}

// True for "libx.so", "libx.so.2", "libx.so.2.0"; false for "libx.so.bak".
bool is_version_suffix(std::string_view suffix) {
  if (suffix.empty()) return true;
  if (suffix.front() != '.') return false;
  return std::all_of(suffix.begin(), suffix.end(),
                     [](char unit) { return unit == '.' || std::isdigit(static_cast<unsigned char>(unit)); });
}

}  // namespace

std::string own_executable() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    throw cli_error(exit_code::refused, "cannot find the path of this command: " + error.message(),
                    "Is /proc mounted?");
  }
  return path.string();
}

namespace {

// Packages keep what no program links in a folder tarn of their own.
std::vector<fs::path> candidates_in(const fs::path& folder, const std::vector<const char*>& names) {
  std::vector<fs::path> candidates;
  for (const char* name : names) {
    candidates.push_back(folder / name);
    candidates.push_back(folder / "tarn" / name);
  }
  return candidates;
}

// The path in the environment variable `variable` if it is set; otherwise the first of `names` found in the library
// directories beside this executable.
std::string find_own_library(const char* variable, const std::vector<const char*>& names) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') {
    std::error_code error;
    std::string path = fs::absolute(named, error).string();
    require_usable_library(path, variable);
    return path;
  }
  const fs::path prefix = fs::path(own_executable()).parent_path().parent_path();
  std::string tried;
  for (const fs::path& folder : {prefix / "lib", prefix / "lib" / arch::multiarch, prefix / "lib64"}) {
    for (const fs::path& candidate : candidates_in(folder, names)) {
      std::error_code error;
      if (fs::exists(candidate, error)) {
        require_usable_library(candidate.string(), "this installation");
        return candidate.string();
      }
    }
    tried += (tried.empty() ? "" : ", ") + folder.string();
  }
  throw cli_error(
      exit_code::refused, fmt::format("cannot find {} (looked in {})", names.front(), tried),
      fmt::format("Build or install it there, or give its path: {}=/path/to/{}", variable, names.front()));
}

}  // namespace

std::string find_tarn_library() { return find_own_library("TARN_LIBRARY", {"libtarn.so.1", "libtarn.so"}); }

std::string find_recorder() {
  return find_own_library("TARN_RECORDER", {"libtarn_record.so.1", "libtarn_record.so"});
}

std::string find_tail_library() { return find_own_library("TARN_LIBRARY_TAIL", {"libtarn_tail.so"}); }

std::vector<std::string> loader_directories() {
  std::vector<std::string> directories;
  if (const char* path = std::getenv("LD_LIBRARY_PATH"); path != nullptr) {
    std::istringstream list(path);
    std::string entry;
    while (std::getline(list, entry, ':')) {
      if (!entry.empty()) directories.push_back(entry);
    }
  }
  read_loader_configuration("/etc/ld.so.conf", 0, directories);
  for (const char* root : {"/usr/local/lib", "/usr/lib", "/lib"}) {
    directories.push_back(fmt::format("{}/{}", root, arch::multiarch));
    directories.emplace_back(root);
  }
  directories.emplace_back("/usr/lib64");
  directories.emplace_back("/lib64");
  std::vector<std::string> unique;
  for (std::string& directory : directories) {
    if (std::find(unique.begin(), unique.end(), directory) == unique.end())
      unique.push_back(std::move(directory));
  }
  return unique;
}

std::optional<std::string> find_newest_library(std::string_view stem,
                                               const std::vector<std::string>& directories) {
  const std::string prefix = fmt::format("lib{}.so", stem);
  std::string best;
  std::string best_name;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (!name.starts_with(prefix) || !is_version_suffix(std::string_view(name).substr(prefix.size())))
        continue;
      // The real file's name carries the full version; the entry may be a link with a short one.
      std::error_code link_error;
      const fs::path real = fs::canonical(entry->path(), link_error);
      if (link_error || !is_native_library(real.string())) continue;
      const std::string real_name = real.filename().string();
      if (best.empty() || strverscmp(best_name.c_str(), real_name.c_str()) < 0) {
        best = real.string();
        best_name = real_name;
      }
    }
  }
  if (best.empty()) return std::nullopt;
  return best;
}

std::optional<std::string> find_trusted_library(const std::string& file_name) {
  std::vector<std::string> folders = loader_directories();
  try {
    folders.insert(folders.begin(), fs::path(find_tarn_library()).parent_path().string());
  } catch (const cli_error&) {  // this command is installed without libtarn
  }
  for (const std::string& folder : folders) {
    std::error_code error;
    const std::string path = fs::canonical(fs::path(folder) / file_name, error).string();
    struct stat status = {};
    if (error || stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const bool is_ours = status.st_uid == 0 || status.st_uid == geteuid();
    if (is_ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && is_native_library(path) &&
        is_preloadable_path(path)) {
      return path;
    }
  }
  return std::nullopt;
}

std::string resolve_named_library(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos) {
    std::string path = fs::absolute(name, error).string();
    require_usable_library(path, "--malloc");
    return path;
  }
  for (const std::string& directory : loader_directories()) {
    const fs::path candidate = fs::path(directory) / name;
    if (fs::exists(candidate, error) && is_native_library(candidate.string())) {
      require_usable_library(candidate.string(), "--malloc");
      return candidate.string();
    }
  }
  throw cli_error(exit_code::usage, fmt::format("no library '{}' in the folders of the dynamic loader", name),
                  "Give its path instead: --malloc NAME=/path/to/" + name);
}

void require_usable_library(const std::string& path, const std::string& named_by) {
  const auto refuse = [&](const std::string& problem, const std::string& advice) {
    throw cli_error(exit_code::refused, fmt::format("{} (named by {}) {}", path, named_by, problem), advice);
  };
  if (!is_preloadable_path(path)) {
    refuse(
        "cannot be preloaded: its path contains a blank, ':' or '$', which LD_PRELOAD cannot "
        "express",
        "Move it, or make a symbolic link with a plain name to it.");
  }
  try {
    const elf_summary summary = summarize_file(path);
    if (summary.kind != file_kind::elf) refuse("is not a shared library", "Give the path of a .so file.");
    if (!summary.is_native()) {
      refuse("is for " + summary.machine_name() + ", not for this machine",
             "Use a library that was built for this machine.");
    }
    if (summary.type != ET_DYN || !summary.has_dynamic)
      refuse("is not a shared library", "Give the path of a .so file.");
  } catch (const std::system_error& error) {
    refuse("cannot be read: " + error.code().message(), "Check the path and its permissions.");
  }
}

}  // namespace tarn::cli
