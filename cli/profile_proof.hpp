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

// Before the program starts. Throws cli_error where its standard input cannot be repeated.
void require_provable(const profiler::recorded_command& command);

// The file of the program that was started, without those of its children; none where that program was not recorded.
std::optional<recorded_profile> main_file(const profiler::recording& record);

// Runs the rounds once the recording has ended. All results and errors go to stderr, as does all else that `tarn profile` prints.
void prove_recorded(const recorded_profile& recorded, bool quiet);

}  // namespace tarn::cli
