// SPDX-License-Identifier: MIT
// player: does a trace again, in this process, with whatever malloc it has. To be called once, in a child made for it.
#pragma once

#include <string>

namespace tarn::profiler {

enum class play_mode {
  heap,     // malloc and free, whatever the routes say
  routes,   // tarn's pools for the blocks that have a route; tarn must be the process's malloc
  nothing,  // no blocks at all: what the replay itself takes
};

struct play_figures {
  double wall_seconds = 0;
  double user_seconds = 0;  // of all lanes
  double system_seconds = 0;
  double faults = 0;      // minor and major
  double peak_bytes = 0;  // resident, above what was before the first operation
  double failed = 0;      // allocations that gave null

  double cpu_seconds() const { return user_seconds + system_seconds; }
};

// Requires: `descriptor` is a trace_image's. Throws profile_error: not an image, no memory, a route that the library does
// not have.
play_figures play(int descriptor, play_mode mode);

}  // namespace tarn::profiler
