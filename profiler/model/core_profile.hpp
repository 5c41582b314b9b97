// SPDX-License-Identifier: MIT
// core_profile: the heap profile that a process kept by itself (option profile), read from its core file. Everything in the file may
// be wrong or missing: what is not there is left out and said. Any thread.
#pragma once

#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Like profile_of() for a black box. Throws profile_error where there is no such profile in the file, with what to do.
profile profile_of_core(const std::string& path);

}  // namespace tarn::profiler
