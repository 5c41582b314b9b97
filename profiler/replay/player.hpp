// SPDX-License-Identifier: MIT
// player: replays a trace in this process, with the malloc that it has. To be called once, in a child made for it.
#pragma once

namespace tarn::profiler {

enum class play_mode {
  heap,     // malloc and free for all blocks, ignoring routes
  routes,   // tarn's pools for blocks with a route; requires tarn as the process's malloc
  nothing,  // no blocks at all: the cost of the replay itself
};

struct play_figures {
  double wall_seconds = 0;
  double user_seconds = 0;  // of all lanes
  double system_seconds = 0;
  double faults = 0;      // minor and major
  double peak_bytes = 0;  // peak of resident bytes above those before the first operation
  double failed = 0;      // allocations that returned null

  double cpu_seconds() const { return user_seconds + system_seconds; }
};

// Requires: `descriptor` is a trace_image's. Throws profile_error: not an image, no memory, a route that the library
// does not have.
play_figures play(int descriptor, play_mode mode);

}  // namespace tarn::profiler
