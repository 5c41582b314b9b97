// SPDX-License-Identifier: MIT
// profile_proof: the part of `tarn profile --prove` that comes before and after the recording. One thread.
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

// Called before the program starts. Throws cli_error if its standard input cannot be read again.
void require_provable(const profiler::recorded_command& command);

// The file of the program itself, without those of its children; none if the program was not recorded.
std::optional<recorded_profile> main_file(const profiler::recording& record);

// Runs the rounds after the recording has ended. All results and errors go to stderr, like everything else that
// `tarn profile` prints.
void prove_recorded(const recorded_profile& recorded, bool quiet);

}  // namespace tarn::cli
