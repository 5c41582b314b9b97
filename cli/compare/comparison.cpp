// SPDX-License-Identifier: MIT
#include "cli/compare/comparison.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>

#include "cli/compare/statistics.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr int fewest_default_rounds = 3;
constexpr int most_default_rounds = 10;
// What any contender may take longer than the first one. Little, so that two slow ones leave time for a round of a short program.
constexpr double patient_seconds = 0.5;
constexpr double least_timeout = 0.001;  // 0 would be none
// What a copy of this process that executes a program has touched beyond one that ends, at most.
constexpr double bytes_aside = 0x1p19;

// After a contender has failed twice.
constexpr int unchanged_runs = 2;

// The limit was reached in a run, which has been ended, or no run can tell what the program costs.
struct ends_early {};

std::vector<measured_way> ways_of(const std::vector<contender>& contenders,
                                  const comparison_settings& settings) {
  std::vector<measured_way> ways;
  for (const contender& who : contenders) ways.push_back({who.name, settings.conditioning_bytes});
  return ways;
}

}  // namespace

std::string comparison_outcome::doubt_about_end() const {
  if (left.empty()) return {};
  return fmt::format("the program goes on in the background: {}{} still ran after its end, and was ended",
                     left.front(), left.size() > 1 ? fmt::format(" and {} more", left.size() - 1) : "");
}

std::string comparison_outcome::doubt_about_peak() const {
  if (results.empty() || results.front().rounds.empty()) return {};
  const double peak = median(values_of(results.front().rounds, &run_figures::peak_rss_bytes));
  if (peak > least_peak_rss + bytes_aside) return {};
  return fmt::format("a peak RSS below {} cannot be told, so there is no verdict about memory",
                     profiler::say_bytes(peak));
}

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
  } catch (const ends_early&) {
    // The figures of the round that is under way do not count.
  } catch (const interrupted& stop) {
    signals_.keep();
    rounds_.clear_progress();
    throw comparison_interrupted{stop, outcome_};
  }
  rounds_.clear_progress();
  return outcome_;
}

void comparison::run_rounds() {
  if (settings_.rounds) planned_rounds_ = *settings_.rounds;
  if (settings_.warms_first) run_once(0);
  while (may_go_on()) {
    const double round_begin = monotonic_seconds();
    if (!run_round()) return;
    ++round_;
    outcome_.rounds = std::max(0, round_ - settings_.warmup_rounds);
    if (settings_.go_on) {
      // Without figures of the first there is nothing to compare with.
      if (!outcome_.results.front().rounds.empty()) choose_further();
    } else if (planned_rounds_ == 0) {
      planned_rounds_ = rounds_that_fit(monotonic_seconds() - round_begin, settings_.budget_seconds);
    }
  }
}

bool comparison::may_go_on() const {
  if (round_ == 0) return true;
  if (planned_rounds_ > 0 && outcome_.rounds >= planned_rounds_) return false;
  const bool has_rival = !settings_.go_on || rounds_.ways_left() > 1;
  return has_rival && !rounds_.have_all_failed();
}

void comparison::choose_further() {
  const std::vector<bool> further = settings_.go_on(outcome_);
  for (std::size_t index = 1; index < further.size(); ++index) {
    if (!further[index]) rounds_.fail(index);
  }
}

// False: the first contender had to succeed, and did not.
bool comparison::run_round() {
  std::vector<run_attempt> attempts(outcome_.results.size());
  outcome_.least_peak_rss = std::max(outcome_.least_peak_rss, least_peak_rss());
  const int rounds_left = planned_rounds_ > 0 ? settings_.warmup_rounds + planned_rounds_ - round_ : 0;
  rounds_.run_round(title(), rounds_left, [&](std::size_t index) { attempts[index] = run_once(index); });
  if (round_ == 0) set_usual_exit(attempts);
  for (std::size_t index = 0; settings_.first_must_succeed && index < attempts.size(); ++index) {
    if (!rounds_.has_failed(index) && !as_usual(attempts[index])) try_again(index, attempts[index]);
    if (index != 0 || as_usual(attempts[index])) continue;
    record(index, attempts[index], false);
    return false;
  }
  for (std::size_t index = 0; index < attempts.size(); ++index) {
    if (!rounds_.has_failed(index)) record(index, attempts[index], round_ >= settings_.warmup_rounds);
  }
  return true;
}

run_attempt comparison::run_once(std::size_t index) {
  const auto tighten = [](double& timeout, double to) { timeout = timeout > 0 ? std::min(timeout, to) : to; };
  run_settings run = settings_;
  if (index != 0 && settings_.patience > 0)
    tighten(run.timeout_seconds,
            patient_seconds + settings_.patience * std::max(longest_first_, settings_.expected_seconds));
  const double own_timeout = run.timeout_seconds;
  const double limit = deadline();
  if (limit > 0) tighten(run.timeout_seconds, std::max(least_timeout, limit - monotonic_seconds()));
  const double begin = monotonic_seconds();
  run_attempt one = run_program(outcome_.results[index].who, target_, words_, run, signals_, [this] {
    // No progress line while the program may write to the terminal.
    if (!settings_.show_output) rounds_.show_progress();
  });
  if (outcome_.left.empty()) outcome_.left = one.left;
  if (!outcome_.left.empty() && settings_.first_must_succeed) throw ends_early{};
  if (index == 0) longest_first_ = std::max(longest_first_, monotonic_seconds() - begin);
  if (settings_.limit_for)
    settings_.limit_seconds = std::max(settings_.limit_seconds, settings_.limit_for(longest_first_));
  if (one.timed_out && limit > 0 && monotonic_seconds() >= limit) give_up(index, one.problem);
  if (one.timed_out) {
    if (one.problem.empty()) one.problem = fmt::format("still running after {:.3g} s", own_timeout);
    if (own_timeout == settings_.timeout_seconds) one.problem += " (--timeout)";
  }
  if (first_problem_.empty()) first_problem_ = one.problem;
  has_measured_ = has_measured_ || one.problem.empty();
  return one;
}

// Of the monotonic clock; 0: none.
double comparison::deadline() const {
  const bool is_open = settings_.limit_for && outcome_.rounds == 0;
  return settings_.limit_seconds > 0 && !is_open ? begin_ + settings_.limit_seconds : 0;
}

// A server that was never measured fails for another reason than too little time: that of its first run.
void comparison::give_up(std::size_t index, const std::string& problem) {
  if (has_measured_ && !problem.empty()) {
    outcome_.cut_short = fmt::format("under {}, {}", outcome_.results[index].who.name, problem);
  } else if (settings_.load) {
    outcome_.cut_short = first_problem_.empty() ? problem : first_problem_;
  }
  throw ends_early{};
}

// The first round decides what the program's ordinary end is: success if any contender sees it,
// otherwise the failure that all have in common (a search that finds nothing exits with 1, and is
// worth measuring all the same).
void comparison::set_usual_exit(const std::vector<run_attempt>& attempts) {
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

// A program that fails at times is no contender's fault.
void comparison::try_again(std::size_t index, run_attempt& one) {
  if (one.timed_out || settings_.load) return;
  const std::string failure = one.problem.empty() ? format_exit(one.wait_status) : one.problem;
  run_attempt second = run_once(index);
  if (as_usual(second)) {
    outcome_.lapses.push_back(
        fmt::format("{} failed once ({}), and not when it was run again: the program fails at times",
                    outcome_.results[index].who.name, failure));
    one = std::move(second);
    return;
  }
  for (int times = 0; index != 0 && times < unchanged_runs; ++times) {
    if (as_usual(run_once(0))) continue;
    one.problem = failure + "; the program fails without the change, too";
    return;
  }
}

void comparison::record(std::size_t index, const run_attempt& one, bool timed) {
  contender_result& result = outcome_.results[index];
  if (as_usual(one)) {
    if (!timed) return;
    result.rounds.push_back(one.figures);
    if (settings_.tails) result.tails.push_back(one.tails);
    return;
  }
  rounds_.fail(index);
  result.failure = one.problem.empty() ? format_exit(one.wait_status) : one.problem;
  result.error_tail = one.error_tail;
}

std::string comparison::title() const {
  if (round_ < settings_.warmup_rounds)
    return fmt::format("warm-up {}/{}", round_ + 1, settings_.warmup_rounds);
  const int number = round_ - settings_.warmup_rounds + 1;
  if (planned_rounds_ > 0 || settings_.limit_seconds <= 0)
    return fmt::format("round {}/{}", number, planned_rounds_ > 0 ? std::to_string(planned_rounds_) : "?");
  return fmt::format("round {}, {:.0f} s left", number,
                     std::max(0.0, begin_ + settings_.limit_seconds - monotonic_seconds()));
}

}  // namespace tarn::cli
