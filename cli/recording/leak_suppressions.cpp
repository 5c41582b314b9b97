// SPDX-License-Identifier: MIT
#include "cli/recording/leak_suppressions.hpp"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

constexpr std::string_view leak_prefix = "leak:";

}  // namespace

bool pattern_matches(std::string_view pattern, std::string_view text) {
  std::string glob = pattern.starts_with('^') ? "" : "*";
  if (pattern.starts_with('^')) pattern.remove_prefix(1);
  const bool is_whole = pattern.ends_with('$');
  if (is_whole) pattern.remove_suffix(1);
  for (const char letter : pattern) {
    if (letter == '?' || letter == '[' || letter == '\\') glob += '\\';  // it stands for itself here
    glob += letter;
  }
  return fnmatch((glob + (is_whole ? "" : "*")).c_str(), std::string(text).c_str(), 0) == 0;
}

void leak_suppressions::add_line(const std::string& path, std::size_t number, std::string line) {
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
  line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
  if (line.empty() || line.front() == '#') return;
  if (!line.starts_with(leak_prefix) || line.size() == leak_prefix.size()) {
    throw cli_error(exit_code::refused, fmt::format("{}:{}: '{}' is not a suppression", path, number, line),
                    "A line must be leak:PATTERN, as for LeakSanitizer, or a comment that begins with '#'.");
  }
  patterns_.push_back(line.substr(leak_prefix.size()));
}

void leak_suppressions::add_file(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) add_line(path, number, line);
  if (!file.is_open() || file.bad())
    throw cli_error(exit_code::refused, fmt::format("{}: cannot be read: {}", path, std::strerror(errno)),
                    "Give a file with lines leak:PATTERN.");
}

std::string leak_suppressions::match(const profiler::profile& p, const profiler::site& one) const {
  if (patterns_.empty()) return "";
  std::vector<std::string> names;
  for (const profiler::source_frame& frame : profiler::frames_of(p, one.stack)) {
    names.push_back(frame.function);
    names.push_back(frame.file);
  }
  for (std::uint32_t node = one.stack; node != 0; node = p.stacks[node].parent) {
    const profiler::module_info* module = profiler::module_at(p, p.stacks[node].address - 1);
    if (module != nullptr) names.push_back(module->path);
  }
  for (const std::string& pattern : patterns_) {
    for (const std::string& name : names) {
      if (!name.empty() && pattern_matches(pattern, name)) return pattern;
    }
  }
  return "";
}

}  // namespace tarn::cli
