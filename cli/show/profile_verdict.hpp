// SPDX-License-Identifier: MIT
// profile_verdict: half a page about a profile: what allocation truly cost, what a timer around it would have
// shown, and the costliest sites.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

// The beginning of a summary where memory, or a signal, has ended the program, or memory nearly did: the signal, the peak
// beside the control group's limit, and who held it. Lines for stderr; empty if the program has ended by itself and stayed below nine tenths of its group's limit.
std::string render_memory_verdict(const profiler::profile& p);

// The highest resident memory of the process in bytes.
double peak_resident_bytes(const profiler::profile& p);

std::string render_verdict(const profiler::profile& p);
nlohmann::json verdict_as_json(const profiler::profile& p);
void print_verdict(const profiler::profile& p);  // on stderr

}  // namespace tarn::cli
