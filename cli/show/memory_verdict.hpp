// SPDX-License-Identifier: MIT
// memory_verdict: the beginning of a summary where memory, or a signal, has ended the program, or memory nearly did: the
// signal, the peak beside the control group's limit, and who held it. Any thread.
#pragma once

#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Lines for stderr; empty if the program has ended by itself and stayed below nine tenths of its group's limit.
std::string render_memory_verdict(const profiler::profile& p);

// The highest resident memory of the process in bytes.
double peak_resident_bytes(const profiler::profile& p);

}  // namespace tarn::cli
