// SPDX-License-Identifier: MIT
// comparison: runs a program under each contender in turn, round after round, and collects the figures. The order
// is shuffled in every round, and memory is touched and released before every run, so that no contender gains from
// its position. For a process with one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cli/compare/contender.hpp"
#include "cli/compare/program_run.hpp"
#include "cli/compare/progress_line.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/program_target.hpp"

namespace tarn::cli {

struct contender_result {
  contender who;
  std::vector<run_figures> rounds;  // the n-th entries of all contenders are of the same round
  std::string failure;     // how the run failed; the contender then takes no further part; empty: it did not
  std::string error_tail;  // the last lines of its stderr in the run that failed
};

struct comparison_settings : run_settings {
  std::optional<int> rounds;  // none given: as many as fit into `budget_seconds`, 3 to 10
  int warmup_rounds = 1;
  double budget_seconds = 60;
  double limit_seconds = 0;     // no round begins that would not end within this time; 0: no limit
  bool ignore_failure = false;  // treat any exit status as success
  // The first contender is the reference for the others: if the program does not end with status 0 under it, the
  // comparison stops.
  bool first_must_succeed = false;
  bool progress = true;
  std::uint64_t conditioning_bytes = 0;
  std::uint64_t seed = 0;
};

struct comparison_outcome {
  std::vector<contender_result> results;
  int rounds = 0;  // complete timed rounds
  // The program's usual exit, which the measured runs share; nullopt if all contenders failed differently.
  std::optional<int> usual_exit;  // wait status
  std::string usual_error_tail;   // if usual_exit is a failure
};

// Thrown when this process is told to end (SIGINT …); the program has been killed by then.
struct comparison_interrupted : interrupted {
  comparison_outcome so_far;  // results of the complete rounds
};

// How many rounds of this duration fit into the budget.
int rounds_that_fit(double seconds_per_round, double budget_seconds);

// Estimated seconds until the end of `rounds` more rounds, the first of which began `elapsed` seconds ago. If that
// one takes longer than `seconds_per_round`, it is assumed to end at any moment.
double seconds_left(int rounds, double seconds_per_round, double elapsed);

class comparison {
 public:
  comparison(const std::vector<contender>& contenders, const program_target& target,
             std::vector<std::string> words, const comparison_settings& settings);
  // Throws comparison_interrupted.
  comparison_outcome run();

 private:
  void run_rounds();
  bool may_go_on() const;
  void run_round();
  run_attempt run_once(const contender& who);
  void settle_usual_exit(const std::vector<run_attempt>& attempts);
  void record(contender_result& result, const run_attempt& one, bool timed) const;
  bool as_usual(const run_attempt& one) const;
  std::string describe(const contender& who) const;

  const program_target& target_;
  std::vector<std::string> words_;
  comparison_settings settings_;
  comparison_outcome outcome_;
  progress_line progress_;
  std::mt19937_64 random_;
  int round_ = 0;  // number of the current round, warm-up rounds included
  double begin_ = 0;
  double round_begin_ = 0;
  double seconds_per_round_ = 0;
};

}  // namespace tarn::cli
