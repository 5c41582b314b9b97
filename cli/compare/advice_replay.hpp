// SPDX-License-Identifier: MIT
// advice_replay: replaces estimates of the price list by results of a replay of the trace. The calling process must
// have one thread.
#pragma once

#include <string>
#include <vector>

#include "cli/compare/replay_rounds.hpp"
#include "profiler/analyze/advice.hpp"

namespace tarn::cli {

// Replays the file's trace unchanged, with the advised variables and mallocs, and with the pools of each piece of
// advice alone; sets savings and grades accordingly. Advice that no replay can test keeps its estimate. Appends
// remarks to `notes`. Throws profile_error if the file has no trace.
std::vector<profiler::advice> replay_advice(const std::string& path, const profiler::profile& p,
                                            std::vector<profiler::advice> all,
                                            const profiler::advice_settings& which,
                                            const replay_settings& settings, std::vector<std::string>& notes);

}  // namespace tarn::cli
