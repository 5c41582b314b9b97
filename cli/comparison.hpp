// SPDX-License-Identifier: MIT
// comparison: runs a program under each contender in turn, round after round, and collects the
// figures. Order is shuffled in every round and memory is touched and released before every run,
// so that no contender gains from its place. For a process with one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "child_process.hpp"
#include "contender.hpp"
#include "program_target.hpp"
#include "progress_line.hpp"

namespace tarn::cli {

struct run_figures {
  double wall_seconds = 0;
  double cpu_seconds = 0;
  double peak_rss_bytes = 0;
  double minor_faults = 0;
  double major_faults = 0;
};

struct contender_result {
  contender who;
  std::vector<run_figures> rounds;  // the n-th of each contender were measured in the same round
  std::string failure;              // empty, or how it ended; it then takes no further part
  std::string error_tail;           // the last lines of its stderr in the run that failed
};

struct comparison_settings {
  std::optional<int> rounds;  // none: as many as fit into a minute, 3 to 10
  int warmup_rounds = 1;
  double timeout_seconds = 0;  // 0: none
  bool show_output = false;
  bool ignore_failure = false;  // any exit status is as good as 0
  bool progress = true;
  std::string input = "/dev/null";
  std::uint64_t conditioning_bytes = 0;
  std::uint64_t seed = 0;
};

struct comparison_outcome {
  std::vector<contender_result> results;
  int rounds = 0;
  // How the program ends under the contenders that count; nullopt when all failed differently.
  std::optional<int> usual_exit;  // wait status
  std::string usual_error_tail;   // when that is a failure
};

// Thrown when this process is told to end (SIGINT …); the program has been killed by then.
struct interrupted {
  int signal;
};

// How many rounds fit, given what one round takes.
int rounds_that_fit(double seconds_per_round);

// Until the end of `rounds` more rounds, the first of which began `elapsed` seconds ago. Where that one takes
// longer than `seconds_per_round`, it is taken to end at any moment.
double seconds_left(int rounds, double seconds_per_round, double elapsed);

class comparison {
 public:
  comparison(const std::vector<contender>& contenders, const program_target& target,
             std::vector<std::string> words, const comparison_settings& settings);
  comparison_outcome run();

 private:
  struct attempt {
    int wait_status = 0;
    bool timed_out = false;
    run_figures figures;
    std::string error_tail;
  };

  void run_round();
  attempt run_once(const contender& who);
  // `begin`: when the child was started.
  attempt wait_for(pid_t child, double begin, const held_signals& signals, const contender& who);
  void settle_usual_exit(const std::vector<attempt>& attempts);
  void record(contender_result& result, const attempt& one, bool timed) const;
  bool as_usual(const attempt& one) const;
  std::string describe(const contender& who) const;

  const program_target& target_;
  std::vector<std::string> words_;
  comparison_settings settings_;
  comparison_outcome outcome_;
  progress_line progress_;
  std::mt19937_64 random_;
  int round_ = 0;  // warm-up included
  double round_begin_ = 0;
  double seconds_per_round_ = 0;
};

}  // namespace tarn::cli
