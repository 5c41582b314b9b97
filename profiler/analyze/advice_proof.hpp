// SPDX-License-Identifier: MIT
// advice_proof: adds to the advice what `tarn prove` has measured. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"

namespace tarn::profiler {

// Sets the grade and the figures of each candidate that was measured, and adds actions that were found to save
// although no rule had advised them. A candidate whose measurement is inconclusive stays as it was counted, and gets
// the figures as evidence.
void apply_proof(const profile& p, std::vector<advice>& candidates);

// "12 % less (9.1 to 15)", "no difference beyond noise (2.0 % less to 1.1 % more)"; without an interval "12 % less"
std::string say_figure(const proven_figure& figure);

}  // namespace tarn::profiler
