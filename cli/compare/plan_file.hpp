// SPDX-License-Identifier: MIT
// plan_file: reads a plan that is about to take effect. The calling process must have one thread. Failures are cli_error
// and profile_error.
#pragma once

#include <string>

#include "profiler/analyze/plan.hpp"

namespace tarn::cli {

// The plan in the file. A plan that changes nothing is refused. One that lets the program load or read what neither the
// system nor tarn has installed needs the user's consent; `trusted`: it is given (--trust-file).
profiler::plan load_plan(const std::string& path, bool trusted);

}  // namespace tarn::cli
