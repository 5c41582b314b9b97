// SPDX-License-Identifier: MIT
#include "cli/recording/leak_suppressions.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

constexpr std::string_view leak_prefix = "leak:";

// Whether `text` begins with the pattern, from which a leading '^' has been removed.
bool matches_here(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    const std::size_t star = pattern.find('*');
    std::string_view part = pattern.substr(0, star);
    const bool is_last = star == std::string_view::npos;
    const bool at_end = is_last && part.ends_with('$');
    if (at_end) part.remove_suffix(1);
    if (!text.starts_with(part) || (at_end && text.size() != part.size())) return false;
    text.remove_prefix(part.size());
    if (is_last) return true;
    pattern.remove_prefix(star + 1);
    while (!text.empty() && !matches_here(pattern, text)) text.remove_prefix(1);
    return matches_here(pattern, text);
  }
  return true;
}

}  // namespace

bool pattern_matches(std::string_view pattern, std::string_view text) {
  if (pattern.starts_with('^')) return matches_here(pattern.substr(1), text);
  for (;; text.remove_prefix(1)) {
    if (matches_here(pattern, text)) return true;
    if (text.empty()) return false;
  }
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
  if (!file) {
    throw cli_error(exit_code::refused, fmt::format("{}: {}", path, std::strerror(errno)),
                    "Give a file with lines leak:PATTERN.");
  }
  for (std::size_t number = 1; std::getline(file, line); ++number) add_line(path, number, line);
  if (file.bad())
    throw cli_error(exit_code::refused, fmt::format("{} cannot be read", path),
                    "Check the path and its permissions.");
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
