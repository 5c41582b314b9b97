// SPDX-License-Identifier: MIT
// advice_replay: puts what a replay of the trace shows in the place of what the price list says.
// For a process with one thread.
#pragma once

#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "replay_rounds.hpp"

namespace tarn::cli {

// Replays the file's trace as the program was, with the variables and the malloc that are advised, and with the pools of
// each piece of advice alone, and sets savings and grades. What no replay can show keeps its estimate. Appends remarks to
// `notes`. Throws profile_error where the file has no trace.
std::vector<profiler::advice> replay_advice(const std::string& path, const profiler::profile& p,
                                            std::vector<profiler::advice> all,
                                            const profiler::advice_settings& which,
                                            const replay_settings& settings, std::vector<std::string>& notes);

}  // namespace tarn::cli
