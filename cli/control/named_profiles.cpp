// SPDX-License-Identifier: MIT
#include "cli/control/named_profiles.hpp"

#include <algorithm>
#include <chrono>

#include "cli/control/process_answers.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

constexpr std::chrono::seconds most_wait{10};

std::unique_lock<std::timed_mutex> take_turn(std::timed_mutex& lock) {
  std::unique_lock turn(lock, most_wait);
  if (!turn.owns_lock())
    throw cli_error(exit_code::refused, "other profiles are being made", "Ask again later.");
  return turn;
}

}  // namespace

std::string named_profiles::ask(pid_t process, const char* view) {
  const auto turn = take_turn(turn_);
  return names_.try_emplace(process, static_cast<std::uint32_t>(process))
      .first->second.add(profile_of(process, view));
}

void named_profiles::keep(const std::vector<pid_t>& processes) {
  const auto turn = take_turn(turn_);
  std::erase_if(names_, [&processes](const auto& each) {
    return std::find(processes.begin(), processes.end(), each.first) == processes.end();
  });
}

}  // namespace tarn::cli
