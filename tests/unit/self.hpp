// SPDX-License-Identifier: MIT
// run_test: runs one test of this program in a new process, with additional environment variables. Tests that are meant
// to run in such a process do nothing if is_child() is false.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tarn::testing_support {

struct outcome {
  int status = -1;
  std::string output;  // standard output and error
};

inline std::string own_path() {
  std::array<char, 4096> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

inline bool is_child() { return std::getenv("ENGINE_TEST_CHILD") != nullptr; }

// `environment`: "NAME='value' NAME=value", as a shell reads it.
inline outcome run_test(const std::string& environment, const std::string& filter) {
  const std::string command = "ENGINE_TEST_CHILD=1 " + environment + " '" + own_path() +
                              "' --gtest_brief=1 --gtest_filter=" + filter + " 2>&1";
  outcome out;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 512> part{};
  while (fgets(part.data(), part.size(), pipe) != nullptr) out.output += part.data();
  out.status = pclose(pipe);
  return out;
}

}  // namespace tarn::testing_support
