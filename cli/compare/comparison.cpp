// SPDX-License-Identifier: MIT
#include "cli/compare/comparison.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>

#include "cli/launch/child_process.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr int fewest_default_rounds = 3;
constexpr int most_default_rounds = 10;

std::vector<measured_way> ways_of(const std::vector<contender>& contenders,
                                  const comparison_settings& settings) {
  std::vector<measured_way> ways;
  for (const contender& who : contenders) ways.push_back({who.name, settings.conditioning_bytes});
  return ways;
}

}  // namespace

int rounds_that_fit(double seconds_per_round, double budget_seconds) {
  if (seconds_per_round <= 0) return most_default_rounds;
  const double fit = std::floor(budget_seconds / seconds_per_round);
  return static_cast<int>(std::clamp<double>(fit, fewest_default_rounds, most_default_rounds));
}

comparison::comparison(const std::vector<contender>& contenders, const program_target& target,
                       std::vector<std::string> words, const comparison_settings& settings)
    : target_(target),
      words_(std::move(words)),
      settings_(settings),
      rounds_(ways_of(contenders, settings), settings.progress, settings.seed) {
  for (const contender& who : contenders) outcome_.results.push_back({who, {}, {}, {}});
}

comparison_outcome comparison::run() {
  begin_ = monotonic_seconds();
  try {
    run_rounds();
  } catch (const interrupted& stop) {
    outcome_.rounds = std::max(0, round_ - settings_.warmup_rounds);
    rounds_.clear_progress();
    throw comparison_interrupted{stop, outcome_};
  }
  rounds_.clear_progress();
  return outcome_;
}

void comparison::run_rounds() {
  if (settings_.rounds) outcome_.rounds = *settings_.rounds;
  for (round_ = 0; round_ == 0 || round_ < settings_.warmup_rounds + outcome_.rounds; ++round_) {
    if (!may_go_on()) {
      outcome_.rounds = std::max(0, round_ - settings_.warmup_rounds);
      return;
    }
    const double round_begin = monotonic_seconds();
    run_round();
    seconds_per_round_ = monotonic_seconds() - round_begin;
    if (round_ == 0 && !settings_.rounds)
      outcome_.rounds = rounds_that_fit(seconds_per_round_, settings_.budget_seconds);
  }
}

bool comparison::may_go_on() const {
  if (round_ == 0) return true;
  if (settings_.first_must_succeed && !outcome_.results.front().failure.empty()) return false;
  const double end = monotonic_seconds() - begin_ + seconds_per_round_;
  if (settings_.limit_seconds > 0 && end > settings_.limit_seconds) return false;
  return !rounds_.have_all_failed();
}

void comparison::run_round() {
  std::vector<run_attempt> attempts(outcome_.results.size());
  const int rounds_left = outcome_.rounds > 0 ? settings_.warmup_rounds + outcome_.rounds - round_ : 0;
  rounds_.run_round(title(), rounds_left,
                    [&](std::size_t index) { attempts[index] = run_once(outcome_.results[index].who); });
  if (round_ == 0) settle_usual_exit(attempts);
  for (std::size_t index = 0; index < attempts.size(); ++index) {
    if (!rounds_.has_failed(index)) record(index, attempts[index], round_ >= settings_.warmup_rounds);
  }
}

run_attempt comparison::run_once(const contender& who) {
  return run_program(who, target_, words_, settings_, [this] {
    // No progress line while the program may write to the terminal.
    if (!settings_.show_output) rounds_.show_progress();
  });
}

// The first round decides what the program's ordinary end is: success if any contender sees it,
// otherwise the failure that all have in common (a search that finds nothing exits with 1, and is
// worth measuring all the same).
void comparison::settle_usual_exit(const std::vector<run_attempt>& attempts) {
  if (settings_.first_must_succeed) {
    outcome_.usual_exit = 0;
    return;
  }
  bool alike = true;
  for (const run_attempt& one : attempts) {
    if (!one.timed_out && one.problem.empty() && one.wait_status == 0) {
      outcome_.usual_exit = 0;
      return;
    }
    alike = alike && !one.timed_out && one.wait_status == attempts.front().wait_status;
  }
  if (alike) {
    outcome_.usual_exit = attempts.front().wait_status;
    outcome_.usual_error_tail = attempts.front().error_tail;
  }
}

bool comparison::as_usual(const run_attempt& one) const {
  if (one.timed_out || !one.problem.empty()) return false;
  if (settings_.ignore_failure && WIFEXITED(one.wait_status)) return true;
  return outcome_.usual_exit && one.wait_status == *outcome_.usual_exit;
}

void comparison::record(std::size_t index, const run_attempt& one, bool timed) {
  contender_result& result = outcome_.results[index];
  if (as_usual(one)) {
    if (timed) result.rounds.push_back(one.figures);
    return;
  }
  rounds_.fail(index);
  result.failure = !one.problem.empty() ? one.problem
                   : one.timed_out
                       ? fmt::format("still running after {} s (--timeout)", settings_.timeout_seconds)
                       : format_exit(one.wait_status);
  result.error_tail = one.error_tail;
}

std::string comparison::title() const {
  if (round_ < settings_.warmup_rounds)
    return fmt::format("warm-up {}/{}", round_ + 1, settings_.warmup_rounds);
  return fmt::format("round {}/{}", round_ - settings_.warmup_rounds + 1,
                     outcome_.rounds > 0 ? std::to_string(outcome_.rounds) : "?");
}

}  // namespace tarn::cli
