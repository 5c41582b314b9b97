// SPDX-License-Identifier: MIT
#include "cli/launch/exit_statistics.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

exit_statistics parse_exit_statistics(const std::string& text) {
  exit_statistics sums;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("returned") || !object["returned"].is_number_integer()) {
      ++sums.damaged_lines;
      continue;
    }
    ++sums.processes;
    sums.returned += object["returned"].get<std::uint64_t>();
  }
  return sums;
}

exit_statistics read_exit_statistics(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_exit_statistics(text.str());
}

statistics_file::statistics_file() {
  const char* folder = std::getenv("TMPDIR");
  path_ = fmt::format("{}/tarn-stats-XXXXXX", folder != nullptr && *folder == '/' ? folder : "/tmp");
  const int descriptor = mkstemp(path_.data());
  if (descriptor < 0) {
    throw cli_error(exit_code::refused, fmt::format("cannot make {}: {}", path_, std::strerror(errno)),
                    "Set TMPDIR to a folder that you may write to.");
  }
  close(descriptor);
}

statistics_file::~statistics_file() { unlink(path_.c_str()); }

}  // namespace tarn::cli
