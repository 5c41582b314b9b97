// SPDX-License-Identifier: MIT
// experience: how much of what a rule or a replay says is really saved, as measured over many programs. All intervals of
// advice are made from it: the table experience_table.inc, which bench/advice/fitting.py writes from measured residuals.
// Pure functions; any thread.
#pragma once

#include "profiler/analyze/advice.hpp"

namespace tarn::profiler {

// Whether more small blocks live at once than the caches hold: then another malloc, which lays them elsewhere, also changes
// how long the program itself waits for memory.
enum class placement_effect : unsigned char { none, possible };

// Times what the rule says. Invariant: 0 <= low <= middle <= high; 0 <= own <= 1.
struct experience {
  double low = 0.3;
  double middle = 1;
  double high = 2.5;
  int programs =
      0;  // that it rests on; 0: none was measured, it is set by the edited programs of tests/profiler/truth
  // Of the program's own time, what placement saved at most besides; in the rows of another malloc, for all that move blocks.
  double own = 0;
};

// Of the kinds that have no row for `possible`, that for `none`.
experience experience_of(advice_kind kind, advice_grade grade, placement_effect placement);

// What of a profile decides how a saving is judged.
struct judged_program {
  double cpu_ns = 1;
  double own_ns = 0;  // of cpu_ns, what is not spent in malloc, free, and page faults
  placement_effect placement = placement_effect::none;
};
judged_program judged_program_of(const profile& p);

// Sets the three figures of `one`, whose kind and grade are known, from what the rule or the replay says, `raw_ns`. The
// interval holds [least_ns, most_ns], between which the rounds of a replay lay, and `error` of raw_ns to either side. All
// are at most the program's CPU time, as it cannot save more than it takes. `fault_ns` is the part of raw_ns that page faults make
// up, which the kernel counts: experience with another malloc is of malloc's own part, the rest; that with glibc's tunables is
// of the faults.
struct raw_saving {
  double raw_ns = 0;
  double least_ns = 0;
  double most_ns = 0;
  double error = 0;
  double fault_ns = 0;
};
void apply_experience(advice& one, const raw_saving& raw, const judged_program& program);

}  // namespace tarn::profiler
