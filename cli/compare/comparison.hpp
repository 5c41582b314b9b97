// SPDX-License-Identifier: MIT
// comparison: runs a program under each contender in interleaved rounds and collects the figures. The calling process
// must have one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/compare/contender.hpp"
#include "cli/compare/interleaved_rounds.hpp"
#include "cli/compare/program_run.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/program_target.hpp"

namespace tarn::cli {

struct contender_result {
  contender who;
  std::vector<run_figures> rounds;  // the n-th entries of all contenders are of the same round
  std::string failure;     // how the run failed; the contender then takes no further part; empty: it did not
  std::string error_tail;  // the last lines of its stderr in the run that failed
  std::vector<call_tails> tails = {};  // as `rounds`; empty: calls are not timed
};

struct comparison_outcome {
  std::vector<contender_result> results;
  int rounds = 0;  // complete timed rounds
  // The program's usual exit, which the measured runs share; nullopt if all contenders failed differently.
  std::optional<int> usual_exit;         // wait status
  std::string usual_error_tail = {};     // if usual_exit is a failure
  std::vector<std::string> lapses = {};  // of contenders that failed, and did not when they were run again
  // Of a server: what the limit has cut short, or why no run before it counted; empty: nothing.
  std::string cut_short = {};
  std::vector<std::string> left = {};  // by the first run that left processes behind: their names
  double least_peak_rss = 0;           // smaller peaks of memory cannot be told

  // What is not measured of a program that goes on in the background; empty: it does not.
  std::string doubt_about_end() const;
  // Why there is no verdict about memory; empty: there is one.
  std::string doubt_about_peak() const;
};

struct comparison_settings : run_settings {
  std::optional<int> rounds;  // none given: as many as fit into `budget_seconds`, 3 to 10
  int warmup_rounds = 1;
  bool warms_first = false;  // a run of the first contender alone, before the rounds
  double budget_seconds = 60;
  double limit_seconds = 0;     // the round that is not complete by then does not count; 0: no limit
  bool ignore_failure = false;  // treat any exit status as success
  // The first contender is the reference for the others: if the program does not end with status 0 under it, the
  // comparison stops, and the round under way does not count. A run that fails is made again before that, and before another
  // contender is blamed. It also stops at a run that leaves processes behind.
  bool first_must_succeed = false;
  bool progress = true;
  std::uint64_t conditioning_bytes = 0;
  std::uint64_t seed = 0;
  // What the limit would be if the first contender took so long; it grows up to that, and one round is always complete. None: it
  // is fixed.
  std::function<double(double)> limit_for;
  // Decides after each complete round, in place of a number of rounds, which contenders are measured further, by index. The
  // comparison ends when at most the first one is.
  std::function<std::vector<bool>(const comparison_outcome&)> go_on;
  // A contender other than the first may take this many times as long as the longest run of the first, or
  // `expected_seconds`. 0: as long as the first.
  double patience = 0;
  double expected_seconds = 0;
};

// Thrown when this process gets a signal to end (SIGINT …); the program has been killed by then.
struct comparison_interrupted : interrupted {
  comparison_outcome so_far;  // results of the complete rounds
};

// How many rounds of this duration fit into the budget.
int rounds_that_fit(double seconds_per_round, double budget_seconds);

class comparison {
 public:
  comparison(const std::vector<contender>& contenders, const program_target& target,
             std::vector<std::string> words, const comparison_settings& settings);
  // Throws comparison_interrupted; then the signals stay held.
  comparison_outcome run();

 private:
  void run_rounds();
  bool may_go_on() const;
  bool run_round();
  void choose_further();
  run_attempt run_once(std::size_t index);
  void set_usual_exit(const std::vector<run_attempt>& attempts);
  void try_again(std::size_t index, run_attempt& one);
  void record(std::size_t index, const run_attempt& one, bool timed);
  bool as_usual(const run_attempt& one) const;
  void give_up(std::size_t index, const std::string& problem);
  double deadline() const;
  std::string title() const;

  held_signals signals_{SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const program_target& target_;
  std::vector<std::string> words_;
  comparison_settings settings_;
  comparison_outcome outcome_;
  interleaved_rounds rounds_;
  int round_ = 0;           // number of the current round, warm-up rounds included
  int planned_rounds_ = 0;  // timed ones; 0: not known
  double begin_ = 0;
  double longest_first_ = 0;  // run of the first contender, seconds
  bool has_measured_ = false;
  std::string first_problem_;
};

}  // namespace tarn::cli
