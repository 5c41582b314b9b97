// SPDX-License-Identifier: MIT
#include "cli/control/program_push.hpp"

#include <fmt/core.h>

#include <system_error>
#include <utility>

#include "cli/control/control_client.hpp"
#include "cli/control/pushed_labels.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_processes = 256;

}  // namespace

program_push::program_push(push_settings settings)
    : given_(settings.labels),
      push_(std::move(settings),
            {[this] { return processes(); }, [this](pid_t each) { return profiles_.ask(each, "heap"); },
             [this](pid_t each) { return labels_of(each, given_); }}) {}

void program_push::prepare(environment& variables) {
  for (const char* const name : {"TARN_CONTROL", "TARN_PROFILE"})
    if (variables.get(name).value_or("off") == "off") variables.set(name, "on");
  variables.unset("TARN_PUSH_HEADERS");
}

void program_push::look(pid_t program) {
  if (program_ != 0) return;
  program_ = program;
  try {
    push_.begin();
  } catch (const std::system_error& error) {
    print_note(
        fmt::format("--push: no profiles are sent, as another thread cannot be started: {}", error.what()));
  }
}

// Not those that have no door, or none yet.
std::vector<pid_t> program_push::processes() {
  std::vector<std::uint32_t> all{static_cast<std::uint32_t>(program_)};
  for (std::size_t at = 0; at < all.size() && all.size() < most_processes; ++at) {
    const std::vector<std::uint32_t> children = profiler::children_of(all[at]);
    all.insert(all.end(), children.begin(), children.end());
  }
  std::vector<pid_t> found;
  for (const std::uint32_t each : all) {
    std::string reason;
    if (find_control_door(static_cast<pid_t>(each), reason)) found.push_back(static_cast<pid_t>(each));
  }
  profiles_.keep(found);
  return found;
}

void program_push::finish() {
  push_.end();
  push_.tell_sums();
}

}  // namespace tarn::cli
