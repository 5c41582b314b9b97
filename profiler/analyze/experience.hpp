// SPDX-License-Identifier: MIT
// experience: how much of what a rule or a replay says is really saved, as measured over many programs. All intervals of
// advice are made from it: the table experience_table.inc, which bench/run_advice.py writes from its residuals.
// Pure functions; any thread.
#pragma once

#include "profiler/analyze/advice.hpp"

namespace tarn::profiler {

// Which programs a row is of: what another malloc saves depends on whether live blocks fit into the caches.
enum class heap_size : unsigned char { any, small, large };

// Times what the rule says. Invariant: 0 <= low <= middle <= high.
struct experience {
  double low = 0.3;
  double middle = 1;
  double high = 2.5;
  int programs =
      0;  // that it rests on; 0: none was measured, it is set by the edited programs of tests/profiler/truth
};

experience experience_of(advice_kind kind, advice_grade grade, heap_size heap);
heap_size heap_size_of(double peak_bytes);

// Sets the three figures of `one`, whose kind and grade are known, from what the rule or the replay says, `raw_ns`. The
// interval holds [least_ns, most_ns], between which the rounds of a replay lay, and `error` of raw_ns to either side. All
// are at most `cpu_ns`, as a program cannot save more than it takes. `fault_ns` is the part of raw_ns that page faults make
// up, which the kernel counts: experience with another malloc is of malloc's own part, the rest; that with glibc's tunables is
// of the faults.
struct raw_saving {
  double raw_ns = 0;
  double least_ns = 0;
  double most_ns = 0;
  double error = 0;
  double fault_ns = 0;
};
void apply_experience(advice& one, const raw_saving& raw, heap_size heap, double cpu_ns);

}  // namespace tarn::profiler
