// SPDX-License-Identifier: MIT
// proof_rounds: runs a recorded program repeatedly, unchanged and under every action that needs no change of its
// code, and stores the results in the profile's file. Used by `tarn prove` and `tarn profile --prove`. The calling
// process must have one thread. Failures are cli_error and profile_error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/compare/comparison.hpp"
#include "cli/compare/proof_actions.hpp"
#include "cli/compare/repeat.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

struct proof_wishes {
  action_wishes actions = {};
  repeat_wishes repeat = {};
  std::optional<server_load> load = {};
  double spent_seconds = 0;    // on the recording, just before; 0: it was another day
  int rounds = 0;              // of all ways; 0: until each way is decided
  double limit_seconds = 0;    // 0: a multiple of the program's own time; with `rounds`, none
  double timeout_seconds = 0;  // of one run; 0: far longer than the recorded run took
  std::uint64_t seed = 0;
  bool keep = true;  // store the results in the profile's file
  bool progress = true;
};

struct proof_result {
  profiler::recorded_command command;
  profiler::proof proven;
  comparison_outcome outcome;  // the unchanged program first, then the ways in the order of `proven`
  std::vector<std::string> notes;
  site_report plan_sites;      // of the wished plan
  double program_seconds = 0;  // wall time of the unchanged program, the median
  int interrupted_by = 0;      // a signal; the results are those of the rounds completed before it
};

// `p` is the profile at `path`, and is given up before the rounds, so that its memory does not count as the program's. Throws cli_error if the command cannot be repeated, or if the unchanged program
// does not end as it did when it was recorded.
proof_result prove_profile(const std::string& path, profiler::profile p, const proof_wishes& wishes);

// What an interruption has left; empty: there was none.
std::string interruption_text(const proof_result& result);

}  // namespace tarn::cli
