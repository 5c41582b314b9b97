// SPDX-License-Identifier: MIT
// proof_course: what the rounds of a proof say about each way, and after each round, which ways are measured further.
//
// A way is judged by the bounds of its CPU time relative to the unchanged program (estimate_blocks). As this is done
// after every round, the probability of an error is spent on the looks, by a fixed rule (Lan and DeMets, Discrete
// sequential boundaries for clinical trials, Biometrika 70, 1983): look k of N ways gets 5 % / (N k (k + 1)) of each
// bound. These sum up to 5 % over all ways and any number of looks, so that the rounds may end at any time; Student's t
// at the levels of such a rule: Pocock, Group sequential methods in the design and analysis of clinical trials,
// Biometrika 64, 1977.
//
// A way that is decided is not measured further, and its figures stay as they are. No threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cli/compare/comparison.hpp"
#include "cli/compare/proof_actions.hpp"
#include "profiler/model/proof.hpp"

namespace tarn::cli {

// The probability that no way is wrongly said to save, in all looks of a proof together.
inline constexpr double proof_confidence = 0.95;

struct course_settings {
  bool stops = true;    // false: all ways are measured in all rounds, and judged once, at the end
  bool chooses = true;  // after the first round the best ways are measured further
  double limit_seconds = 0;
  // Once the unchanged program's own time is known, the limit is that many times as long, less `spent_seconds`, but at
  // least `least_seconds` and `least_runs`; 0: it stays.
  double own_times = 0;
  double spent_seconds = 0;
  double least_seconds =
      0;  // until then ways that save are measured further, so that the best of them is known
  double least_runs = 0;

  double limit_for(double own_seconds) const {
    return std::max({least_seconds, least_runs * own_seconds, own_times * own_seconds - spent_seconds});
  }
};

// The ways that are measured after the first round. With fewer the bounds are not narrow; more would take the time that
// the best ones need.
inline constexpr std::size_t most_chosen = 3;

class proof_course {
 public:
  proof_course(const std::vector<proof_action>& actions, const course_settings& settings);

  // Of a comparison with the unchanged program first, then the actions: after a complete round, which are measured
  // further.
  std::vector<bool> after_round(const comparison_outcome& outcome);
  // The ways with what was found; start, seconds and load are left to the caller.
  profiler::proof result(const comparison_outcome& outcome) const;

 private:
  std::vector<profiler::proof_way> evaluate(const comparison_outcome& outcome, double error) const;
  void update_decisions(std::vector<profiler::proof_way> seen);
  void leave_behind(const std::vector<std::size_t>& order, std::size_t keep);
  std::vector<std::size_t> candidates(int rounds) const;
  bool is_early() const;
  std::size_t room(const comparison_outcome& outcome) const;

  const std::vector<proof_action>& actions_;
  course_settings settings_;
  bool any_layered_;
  double begin_;
  int looks_ = 0;
  std::vector<profiler::proof_way> ways_;  // by action, as of the last look, or of the look that decided
};

std::string rounds_in_words(int rounds);  // "1 round"
// Why the figures of a server may be of unequal work; empty: no reason is known.
std::string doubt_about_load(const profiler::proof& what);

}  // namespace tarn::cli
