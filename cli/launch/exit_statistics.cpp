// SPDX-License-Identifier: MIT
#include "cli/launch/exit_statistics.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tarn::cli {

namespace {

std::uint64_t figure(const nlohmann::json& lock, const char* name) {
  const auto found = lock.find(name);
  return found != lock.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool is_same_name(const nlohmann::json& a, const nlohmann::json& b) {
  return a["name"] == b["name"] && figure(a, "object_size") == figure(b, "object_size");
}

void add_lock(nlohmann::json& locks, const nlohmann::json& lock) {
  if (!lock.is_object() || !lock.contains("name") || !lock["name"].is_string()) return;
  const auto sum = std::find_if(locks.begin(), locks.end(),
                                [&lock](const nlohmann::json& each) { return is_same_name(each, lock); });
  if (sum == locks.end()) {
    locks.push_back(lock);
    return;
  }
  for (const auto& [key, value] : lock.items()) {
    if (!value.is_number_unsigned() || key == "object_size") continue;
    const std::uint64_t before = figure(*sum, key.c_str());
    const auto added = value.get<std::uint64_t>();
    (*sum)[key] = key == "longest_held_ns" ? std::max(before, added) : before + added;
  }
}

}  // namespace

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
    if (!object.contains("locks")) continue;
    for (const nlohmann::json& lock : object["locks"]) add_lock(sums.locks, lock);
  }
  std::sort(sums.locks.begin(), sums.locks.end(), [](const nlohmann::json& a, const nlohmann::json& b) {
    return figure(a, "acquisitions") > figure(b, "acquisitions");
  });
  return sums;
}

exit_statistics read_exit_statistics(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_exit_statistics(text.str());
}

}  // namespace tarn::cli
