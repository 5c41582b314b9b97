// SPDX-License-Identifier: MIT
#include "cli/recording/process_choice.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "cli/show/cli_error.hpp"
#include "cli/show/process_table.hpp"
#include "cli/show/profile_view.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/merge.hpp"

namespace tarn::cli {

using profiler::process_summary;
using profiler::profile;

namespace {

bool is_chosen(const process_summary& one, const std::string& choice) {
  return std::to_string(one.process) == choice || profiler::printable(one.command) == choice;
}

[[noreturn]] void refuse_choice(const std::string& path, const std::string& choice,
                                const std::vector<process_summary>& all) {
  constexpr std::size_t most_named = 8;
  std::string known;
  for (std::size_t index = 0; index < std::min(most_named, all.size()); ++index) {
    known += fmt::format("{}{} ({})", index == 0 ? "" : ", ", all[index].process,
                         profiler::printable(all[index].command));
  }
  throw cli_error(exit_code::usage, fmt::format("--process {}: {} has no such process", choice, path),
                  fmt::format("The most expensive processes are {}.", known));
}

// Costs of page faults alone (mode faults) and costs of malloc's blocks must not be added up.
void require_same_kind(const profile& first, const profile& other, const std::string& path) {
  const auto sees_blocks = [](const profile& p) { return p.mode != profiler::profile_mode::faults; };
  if (sees_blocks(first) == sees_blocks(other)) return;
  throw cli_error(exit_code::refused,
                  fmt::format("{}: recorded with --mode {}, unlike the files before it", path,
                              sees_blocks(other) ? "sample or full" : "faults"),
                  "Merge profiles of mode faults only with one another.");
}

}  // namespace

CLI::Option* add_process_option(command& app, std::string& choice) {
  return app.option("--process PID|NAME", choice,
                    "Of a merged profile, use only this process, or all with this name");
}

void require_each_once(const std::vector<std::string>& paths) {
  std::map<std::string, std::string> known;
  for (const std::string& path : paths) {
    std::error_code error;
    const std::string place = std::filesystem::weakly_canonical(path, error).string();
    const auto [at, is_new] = known.try_emplace(error ? path : place, path);
    if (!is_new) {
      throw cli_error(exit_code::usage, fmt::format("{} is given twice (as {})", path, at->second),
                      "Its figures would count twice; give each file once.");
    }
  }
}

void add_files(profiler::profile_merger& merger, const std::vector<std::string>& paths,
               const std::function<void()>& added) {
  require_each_once(paths);
  std::optional<profile> first;
  for (const std::string& path : paths) {
    profile p = load_parts_for_command(path);
    if (first) require_same_kind(*first, p, path);
    if (!first) {
      first.emplace();
      first->mode = p.mode;
      // If the sites stay in the merger: room for a second profile of this size. Pages that are never written take no
      // memory, but growing later would hold these sites twice, beside those of the second profile.
      if (!added && paths.size() > 1) p.sites.reserve(2 * p.sites.size());
    }
    merger.add(std::move(p));
    if (added) added();
  }
}

profile merge_files(const std::vector<std::string>& paths) {
  profiler::profile_merger merger;
  add_files(merger, paths);
  return merger.take();
}

profile load_for_command(const std::string& path, const std::string& choice,
                         profiler::profile_detail detail) {
  profile parts = load_parts_for_command(path, detail);
  if (parts.processes.empty()) {
    if (!choice.empty() && !is_chosen(profiler::summary_of(parts), choice)) {
      refuse_choice(path, choice, {profiler::summary_of(parts)});
    }
    return parts;
  }
  if (!choice.empty()) {
    const std::vector<profile> figures = profiler::figures_by_process(parts);
    profiler::profile_merger chosen;
    for (std::size_t index = 0; index < figures.size(); ++index) {
      if (is_chosen(profiler::summary_of(figures[index]), choice))
        chosen.add(profiler::process_of(parts, index));
    }
    if (chosen.processes() == 0) refuse_choice(path, choice, processes_in(figures));
    parts = chosen.take();
  }
  profiler::join_sites(parts);
  return parts;
}

void require_costs(const profiler::profile& p, const std::string& path) {
  if (profiler::has_costs(p)) return;
  throw cli_error(
      exit_code::refused,
      fmt::format("{} is of {}: it tells who held memory, and no costs", path, profiler::origin_of(p)),
      "Read it by tarn show, report, diff or export; for advice and proof record the program: tarn profile "
      "-- PROGRAM ARG...");
}

}  // namespace tarn::cli
