// SPDX-License-Identifier: MIT
#include "cli/compare/plan_file.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "cli/compare/own_command.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

profiler::plan read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    throw cli_error(exit_code::refused, fmt::format("cannot read {}: {}", path, std::strerror(errno)),
                    "Write a plan by: tarn advise PROFILE --plan PLAN");
  }
  return profiler::read_plan(text.str(), path);
}

// Installed by root, and replaced by nobody else: the file and all folders above it.
bool is_of_system(const std::string& path) {
  std::error_code error;
  std::filesystem::path each = std::filesystem::canonical(path, error);
  for (; !error; each = each.parent_path()) {
    struct stat status = {};
    if (stat(each.c_str(), &status) != 0 || status.st_uid != 0 || (status.st_mode & 022) != 0) return false;
    if (each == each.root_path()) return true;
  }
  return false;
}

// A plan may come from anybody, and be made from anybody's profile: what it lets the program load or read is shown, unless
// it is a library of the system or tarn's own, or an option that only tunes malloc.
void require_harmless(const std::string& file, const profiler::plan& plan, bool trusted) {
  constexpr std::string_view harmless[] = {"GLIBC_TUNABLES", "TARN_HUGE_PAGES"};
  std::string lines;
  const bool is_path = plan.library.find('/') != std::string::npos;
  if (is_path && !is_of_system(plan.library) && plan.library != find_tarn_library())
    lines += "malloc " + profiler::printable(plan.library) + " ";
  for (const profiler::environment_variable& each : plan.variables) {
    if (std::find(std::begin(harmless), std::end(harmless), each.name) == std::end(harmless))
      lines += profiler::printable(each.name) + "=" + profiler::printable(each.value) + " ";
  }
  if (lines.empty()) return;
  lines.pop_back();
  require_consent(file, "what it loads", lines, trusted);
}

}  // namespace

profiler::plan load_plan(const std::string& path, bool trusted) {
  profiler::plan plan = read_file(path);
  if (plan.sites.empty() && plan.variables.empty() && !plan.on_tarn && plan.library.empty()) {
    throw cli_error(exit_code::refused, fmt::format("{} changes nothing", path),
                    "Write another plan: tarn advise PROFILE --plan PLAN");
  }
  require_harmless(path, plan, trusted);
  return plan;
}

}  // namespace tarn::cli
