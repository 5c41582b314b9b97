// SPDX-License-Identifier: MIT
#include "cli/compare/applied_plan.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

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
#include "profiler/apply/apply_format.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

profiler::plan read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    throw cli_error(exit_code::refused, fmt::format("{}: cannot be read: {}", path, std::strerror(errno)),
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
  // The program is started in its own folder, which may be another one.
  if (plan.library.find('/') != std::string::npos)
    plan.library = std::filesystem::absolute(plan.library).string();
  require_harmless(path, plan, trusted);
  return plan;
}

namespace {

constexpr const char* apply_library = "libtarn_apply.so";

std::string find_apply_library() {
  const std::filesystem::path tarn = find_tarn_library();
  // Packages keep it in a folder of its own, as no program links it.
  for (const std::filesystem::path& folder : {tarn.parent_path(), tarn.parent_path() / "tarn"}) {
    if (std::filesystem::exists(folder / apply_library)) return (folder / apply_library).string();
  }
  throw cli_error(exit_code::refused,
                  fmt::format("{} is not in the folder of {}", apply_library, tarn.string()),
                  "Install both into one folder, or set TARN_LIBRARY to the path of another libtarn.");
}

std::string frame_text(const profiler::plan_frame& frame) {
  if (!frame.build_id.empty()) return fmt::format("b{}:{:x}", frame.build_id, frame.offset);
  std::string name;
  for (const char letter : frame.module.substr(frame.module.rfind('/') + 1)) {
    name += fmt::format("{:02x}", static_cast<unsigned char>(letter));
  }
  return fmt::format("n{}:{:x}", name, frame.offset);
}

// The plan in the format of apply_format.hpp. Throws cli_error for more groups than the library takes.
std::string library_text(const profiler::plan& plan) {
  std::map<std::uint32_t, std::size_t> groups;
  std::string text;
  for (const profiler::plan_site& site : plan.sites) {
    const std::size_t group = groups.try_emplace(site.group, groups.size()).first->second;
    if (group >= profiler::most_apply_groups) {
      throw cli_error(exit_code::refused,
                      fmt::format("the plan has more than {} groups of sites", profiler::most_apply_groups),
                      "Remove the groups that save least, or select one: tarn advise FILE --plan PLAN "
                      "--number N");
    }
    text +=
        fmt::format("{} {} {}", site.use == profiler::plan_use::pool ? "pool" : "buffers", group, site.size);
    for (const profiler::plan_frame& frame : site.frames) text += " " + frame_text(frame);
    text += "\n";
  }
  return text;
}

}  // namespace

applied_plan::applied_plan(const profiler::plan& plan, bool with_layer)
    : plan_(plan), with_layer_(with_layer || !plan.sites.empty()), sites_(library_text(plan)), report_("") {}

contender applied_plan::as_contender(const std::string& name) const {
  contender applied{name, "", {}};
  for (const profiler::environment_variable& each : plan_.variables)
    applied.variables.emplace_back(each.name, each.value);
  if (with_layer_) {
    applied.library = find_apply_library();
    applied.variables.emplace_back(profiler::apply_variable, sites_.path());
    applied.variables.emplace_back(profiler::apply_report_variable, report_.path());
  } else if (plan_.on_tarn) {
    applied.library = find_tarn_library();
  } else if (!plan_.library.empty()) {
    applied.library = resolve_named_library(plan_.library);
  }
  applied.keeps_preloads = applied.library.empty();  // as the unchanged program does
  return applied;
}

site_report applied_plan::report() const {
  site_report report;
  std::ifstream file(report_.path());
  std::string word;
  while (file >> word) {
    double first = 0;
    double second = 0;
    if (!(file >> first >> second)) break;
    if (word == "sites") {
      report.processes += 1;
      report.found = std::max(report.found, first);
      report.all = second;
    } else if (word == "group" && first >= 0 &&
               first < profiler::most_apply_groups) {  // the program may write, too
      report.blocks[static_cast<std::size_t>(first)] += second;
    }
  }
  return report;
}

void applied_plan::remove_files() const {
  unlink(sites_.path().c_str());
  unlink(report_.path().c_str());
}

}  // namespace tarn::cli
