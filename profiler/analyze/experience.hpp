// SPDX-License-Identifier: MIT
// experience: how much of a saving predicted by a rule or a replay is really saved. All intervals of advice are derived
// from it: the table experience_table.inc. Pure functions; any thread.
#pragma once

#include "profiler/analyze/advice.hpp"

namespace tarn::profiler {

// Whether more small blocks live at once than fit into the caches: then another malloc, which places them
// elsewhere, also changes how long the program itself waits for memory.
enum class placement_effect : unsigned char { none, possible };

// Factors on the predicted saving. Invariant: 0 <= low <= middle <= high; 0 <= own <= 1.
struct experience {
  double low = 0.3;
  double middle = 1;
  double high = 2.5;
  // Number of programs measured; 0: none, and the factors are set from the edited programs of tests/profiler/truth.
  int programs = 0;
  // Largest additional saving by placement, as a share of the program's own time; in the rows of another malloc it
  // holds for all advice that moves blocks.
  double own = 0;
};

// Kinds without a row for `possible` use the row for `none`.
experience experience_of(advice_kind kind, advice_grade grade, placement_effect placement);

// The facts of a profile that a saving's interval depends on.
struct judged_program {
  double cpu_ns = 1;
  double own_ns = 0;  // part of cpu_ns that is not spent in malloc, free and page faults
  placement_effect placement = placement_effect::none;
};
judged_program judged_program_of(const profile& p);

// Sets the three figures of `one`, whose kind and grade are set, from the saving by the rule or the replay,
// `raw_ns`. The interval contains [least_ns, most_ns], the range of a replay's rounds, and `error` * raw_ns to
// either side. All figures are limited to the program's CPU time. `fault_ns` is the part of raw_ns in page faults,
// which the kernel counts: experience with another malloc corrects only malloc's own part; experience
// with glibc's tunables corrects the page faults.
struct raw_saving {
  double raw_ns = 0;
  double least_ns = 0;
  double most_ns = 0;
  double error = 0;
  double fault_ns = 0;
};
void apply_experience(advice& one, const raw_saving& raw, const judged_program& program);

}  // namespace tarn::profiler
