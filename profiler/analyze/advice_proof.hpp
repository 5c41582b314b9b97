// SPDX-License-Identifier: MIT
// advice_proof: what `tarn prove` has measured in the place of what the rules estimate.
// Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"

namespace tarn::profiler {

// Sets the grade and the figures of each candidate that was measured, and adds what was found to gain although no rule
// had advised it. A candidate whose figures decide nothing keeps its estimate and gets the figures as evidence.
void apply_proof(const profile& p, std::vector<advice>& candidates);

// Whether the way's figures prove that it saves CPU time, or that it saves less than a hundredth.
enum class proof_verdict : std::uint8_t { open, proven, disproved };
proof_verdict verdict_of(const proof_way& way);

// "12 % less (9.1 to 15)", "no difference beyond noise (2.0 % less to 1.1 % more)"
std::string say_figure(const proven_figure& figure);

}  // namespace tarn::profiler
