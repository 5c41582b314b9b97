// SPDX-License-Identifier: MIT
#include "profiler/report/source_lines.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/format/printable.hpp"

namespace tarn::profiler {

namespace {

namespace fs = std::filesystem;

bool is_source_name(const fs::path& path) {
  constexpr std::array<std::string_view, 26> endings = {
      ".c",   ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".tcc",   ".inc",
      ".def", ".py", ".pyx", ".rs",  ".go",  ".d", ".m",  ".mm",  ".f",   ".f90", ".S",   ".swift", ".zig"};
  const std::string ending = path.extension().string();
  // Headers of the C++ library have no extension.
  if (ending.empty()) return path.string().find("/include/c++/") != std::string::npos;
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

// Caches the lines of files, so that each is read once.
class source_files {
 public:
  explicit source_files(const source_limits& limits) : limits_(limits) {}

  const std::vector<std::string>& lines_of(const std::string& name) {
    const auto [at, is_new] = files_.try_emplace(name);
    if (is_new) at->second = read(name);
    return at->second;
  }

 private:
  std::vector<std::string> read(const fs::path& path) const {
    std::vector<std::string> lines;
    std::error_code error;
    if (!is_source_name(path) || !fs::is_regular_file(path, error)) return lines;
    if (fs::file_size(path, error) > limits_.most_file_bytes || error) return lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      line.resize(std::min(line.size(), limits_.most_line_bytes));
      std::replace(line.begin(), line.end(), '\t', ' ');
      lines.push_back(printable(line));
    }
    return lines;
  }

  const source_limits& limits_;
  std::map<std::string, std::vector<std::string>> files_;
};

}  // namespace

nlohmann::json source_lines(const nlohmann::json& report, const source_limits& limits) {
  const nlohmann::json& files = report["frames"]["file"];
  const nlohmann::json& numbers = report["frames"]["line"];
  nlohmann::json found = nlohmann::json::object();
  source_files sources(limits);
  std::size_t left = limits.most_bytes;
  for (const nlohmann::json& place : report["sites"]["place"]) {
    const auto frame = place.get<std::int64_t>();
    if (frame < 0 || static_cast<std::size_t>(frame) >= files.size()) continue;
    const std::string key = std::to_string(frame);
    const auto line = numbers[static_cast<std::size_t>(frame)].get<std::size_t>();
    if (line == 0 || found.contains(key)) continue;
    const auto text = files[static_cast<std::size_t>(frame)].get<std::size_t>();
    const auto& lines = sources.lines_of(report["strings"][text].get<std::string>());
    if (line > lines.size()) continue;
    const std::size_t first = line > limits.lines_around ? line - limits.lines_around : 1;
    nlohmann::json shown = {first};
    std::size_t bytes = 0;
    for (std::size_t each = first; each <= std::min(lines.size(), line + limits.lines_around); ++each) {
      bytes += lines[each - 1].size();
      shown.push_back(lines[each - 1]);
    }
    if (bytes > left) break;
    left -= bytes;
    found[key] = std::move(shown);
  }
  return found;
}

}  // namespace tarn::profiler
