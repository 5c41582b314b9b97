// SPDX-License-Identifier: MIT
// box_text: what a black box adds to the account of a process's end: the memory that has a name (pools, scopes, recyclers, buffer
// pools), malloc's free memory by where it lies, and the room there was in the last minutes. Pure; any thread.
#pragma once

#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Lines with tabs between columns; "" where the profile has none of it.
std::string render_box(const profiler::profile& p);

}  // namespace tarn::cli
