// SPDX-License-Identifier: MIT
// profile_proof: the part of `tarn profile --prove` that comes before and after the recording: runs the program again,
// unchanged and with each action of proof_actions.hpp. The calling process must have one thread.
#pragma once

#include <optional>
#include <string>

#include "profiler/collect/recording.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/recorded_command.hpp"

namespace tarn::cli {

struct recorded_profile {
  std::string path;
  profiler::profile content;
};

// Called before the recording. Throws cli_error if the program's standard input cannot be read again.
void require_provable(const profiler::recorded_command& command);

// The profile of the program itself, not of its children, and its file. None if the program was not recorded. Requires
// that record.finish() has been called.
std::optional<recorded_profile> main_file(const profiler::recording& record);

// Called after the recording. Stores the results in the profile's file. Prints them, and all errors, to stderr, like
// everything else that `tarn profile` prints. Does not throw.
void prove_recorded(const recorded_profile& recorded, bool quiet);

}  // namespace tarn::cli
