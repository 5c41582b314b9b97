// SPDX-License-Identifier: MIT
#include "cli/launch/exit_statistics.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

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

}  // namespace tarn::cli
