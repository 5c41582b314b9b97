// SPDX-License-Identifier: MIT
// profile_verdict: half a page about a profile: what allocation truly cost, what a timer around it would have
// shown, and the costliest sites.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

std::string render_verdict(const profiler::profile& p);
nlohmann::json verdict_as_json(const profiler::profile& p);
void print_verdict(const profiler::profile& p);  // on stderr

}  // namespace tarn::cli
