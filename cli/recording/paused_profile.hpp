// SPDX-License-Identifier: MIT
// paused_profile: `tarn profile --paused`: runs a program without recording it, and attaches to it when `tarn
// attach` asks for it. Until then nothing is slowed down.
#pragma once

#include <string>
#include <vector>

#include "profiler/collect/recording.hpp"

namespace tarn::cli {

// Ends this process as the program ends; each period of recording leaves files of its own. Throws cli_error.
int profile_paused(const std::vector<std::string>& program, const profiler::recording_settings& settings,
                   bool quiet, bool json);

}  // namespace tarn::cli
