// SPDX-License-Identifier: MIT
#include "profiler/collect/process_name.hpp"

#include <string_view>

namespace tarn::profiler {

namespace {

std::string last_component(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool is_title(std::string_view word) { return word.find_first_of(" :\t\n") != std::string_view::npos; }

}  // namespace

std::string process_name(const std::vector<std::string>& arguments, const std::string& program) {
  std::string called = arguments.empty() ? std::string() : arguments.front();
  if (called.starts_with('-')) called.erase(0, 1);
  if (!is_title(called)) called = last_component(called);
  if (called.empty() || is_title(called)) called = last_component(program);
  return called.empty() ? "program" : called;
}

}  // namespace tarn::profiler
