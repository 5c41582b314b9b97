// SPDX-License-Identifier: MIT
#include "cli/recording/recording_setup.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "cli/compare/contender.hpp"
#include "cli/cost/cost_worker.hpp"
#include "cli/cost/memory_prices.hpp"
#include "cli/launch/accepted_values.hpp"
#include "cli/launch/facilities.hpp"
#include "cli/launch/preload_check.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/process_table.hpp"
#include "cli/show/profile_verdict.hpp"
#include "os/memory_pressure.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

using profiler::profile_mode;
using profiler::recording;

namespace {

constexpr std::uint64_t larger_than_caches = std::uint64_t{16} << 20;
constexpr std::uint64_t least_sample_bytes = 1024;
constexpr std::uint64_t most_sample_bytes = std::uint64_t{1} << 30;

profile_mode mode_of(const std::string& name) {
  if (name == "full") return profile_mode::full;
  return name == "faults" ? profile_mode::faults : profile_mode::sample;
}

}  // namespace

std::vector<limited_option> recording_arguments::declare(command& app, const std::vector<std::string>& modes,
                                                         const std::string& mode_help,
                                                         const std::string& output_help) {
  return {
      {app.option("--mode MODE", mode, mode_help, one_of(modes)), {""}},
      {app.option("-o,--output FILE", output, output_help), {"", "--dump"}},
      {app.option("--sample SIZE", sample,
                  "Mode sample: average number of bytes between samples (16K at first, later 512K)",
                  byte_size(least_sample_bytes, most_sample_bytes)),
       {""}},
      {app.option("--checkpoint SECONDS", checkpoint, "Seconds between updates of the file (5)",
                  number(0.1, 3600.0)),
       {""}},
      {app.add_flag("--no-events", no_events, "Mode full: omit single events: the file is smaller"), {""}},
      {app.add_flag("-q,--quiet", quiet, "Print neither progress nor a summary"), {""}},
      {app.add_flag("--json", json, "Print the summary as one JSON object on stderr"),
       {"", "--stop", "--dump"}},
  };
}

profiler::recording_settings recording_arguments::settings() const {
  profiler::recording_settings settings{
      .mode = mode_of(mode), .keep_events = !no_events, .checkpoint_seconds = checkpoint, .output = output};
  if (!sample.empty()) {
    settings.sample_bytes = parse_byte_size(sample);
    settings.first_halvings = 0;
  }
  require_file_name("-o", output);
  return settings;
}

profiler::price_list find_prices(const std::string& allocator, std::vector<std::string>& notes) {
  const memory_prices measured = calibrate_prices();
  if (measured.first_bytes < larger_than_caches) {
    notes.push_back(fmt::format(
        "zeroing and huge pages may cost up to twice their prices here: measured on {}, as tarn takes at most a "
        "sixteenth of the memory limit",
        profiler::say_exactly(measured.first_bytes)));
  }
  const double pages_per_mib = static_cast<double>(1 << 20) / static_cast<double>(measured.page_bytes);
  profiler::price_list prices;
  prices.fault = 1e9 * measured.fault_seconds;
  prices.huge_fault = 1e9 * measured.huge_fault_seconds;
  if (static_cast<double>(measured.costly_bytes) >=
      smallest_costly_part * static_cast<double>(measured.first_bytes)) {
    prices.costly_fault = 1e9 * measured.costly_fault_seconds;
  }
  prices.unmap_page = 1e9 * measured.unmapping_per_mib / pages_per_mib;
  prices.zero_page = 1e9 * measured.zeroing_per_mib / pages_per_mib;
  const contender who{"the program's malloc", is_system_libc(allocator) ? "" : allocator};
  const auto find_pair = [&prices](const contender& one) {
    const nlohmann::json pair = nlohmann::json::parse(run_cost_worker(one, {pair_word}, 60));
    prices.malloc_pair = 1e9 * pair.at("seconds").get<double>();
    // Malloc and free are timed separately, so the difference is that of two timed calls.
    prices.timed_call = std::max(0.0, 1e9 * pair.at("timed_seconds").get<double>() - prices.malloc_pair) / 2;
  };
  try {
    find_pair(who);
  } catch (const cli_error& error) {
    notes.push_back(
        fmt::format("the price of malloc and free is measured with the system's malloc: {}", error.what()));
    find_pair({system_name, ""});
  }
  return prices;
}

void note_unseen_blocks(const std::string& file, const std::string& name, std::vector<std::string>& notes) {
  const std::string note = note_of_own_malloc(
      file, name, "what it allocates by that is not seen (--mode faults records page faults in all memory)");
  if (!note.empty()) notes.push_back(note);
}

nlohmann::json describe_place(const std::vector<std::string>& notes, const std::string& process) {
  nlohmann::json place = {{"kernel", kernel_name()},
                          {"thp", huge_page_setting()},
                          {"privilege", privilege_name()},
                          {"refused", notes},
                          {"tarn_version", TARN_CLI_VERSION}};
  const std::uint64_t limit = os::look_at_memory("", process.c_str()).group.limit;
  if (limit != os::unlimited) place["memory_limit_bytes"] = limit;
  place["machine_memory_bytes"] =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  // Of this process, whose limits the program inherits, or of the one that is attached to.
  rlimit address{};
  const pid_t whose = process == "self" ? 0 : static_cast<pid_t>(std::stol(process));
  if (prlimit(whose, RLIMIT_AS, nullptr, &address) == 0 && address.rlim_cur != RLIM_INFINITY)
    place["address_limit_bytes"] = address.rlim_cur;
  return place;
}

nlohmann::json summary_of(const recording& record) {
  nlohmann::json files = nlohmann::json::array();
  for (const auto& file : record.files()) {
    files.push_back({{"path", profiler::printable(file.path)},
                     {"program", profiler::printable(file.program)},
                     {"pid", file.process},
                     {"problem", profiler::printable(file.problem)}});
  }
  nlohmann::json summary = {{"files", files}};
  if (record.main_profile() != nullptr) summary["program"] = verdict_as_json(*record.main_profile());
  summary["tree"] = tree_as_json(record.processes());
  return summary;
}

void print_files(const recording& record) {
  for (const auto& file : record.files()) {
    if (file.process == 0) {
      print_message("tarn: {} ({})\n", profiler::printable(file.path), file.program);
    } else {
      print_message("tarn: {} ({}, process {})\n", profiler::printable(file.path),
                    profiler::printable(file.program), file.process);
    }
    if (!file.problem.empty()) print_note(fmt::format("it is incomplete: {}", file.problem));
  }
}

}  // namespace tarn::cli
