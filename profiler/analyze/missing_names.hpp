// SPDX-License-Identifier: MIT
// missing_names: says which files have code without names, and what brings the names. Pure function; any thread.
#pragma once

#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// One sentence, if a twentieth of the cost or more is at places to which code without names leads; else "".
std::string missing_names(const profile& p);

}  // namespace tarn::profiler
