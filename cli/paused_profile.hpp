// SPDX-License-Identifier: MIT
// paused_profile: `tarn profile --paused`: runs a program as it is, and attaches to it when `tarn attach` asks for it. What
// is not attached to costs nothing.
#pragma once

#include <string>
#include <vector>

#include "profiler/collect/recording.hpp"

namespace tarn::cli {

// Ends this process as the program ends; each stretch of recording leaves files of its own. Throws cli_error.
int profile_paused(const std::vector<std::string>& program, const profiler::recording_settings& settings,
                   bool quiet, bool json);

}  // namespace tarn::cli
