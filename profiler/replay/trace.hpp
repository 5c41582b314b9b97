// SPDX-License-Identifier: MIT
// trace: what a program did with its heap, made ready to be done again: for each thread a list of operations on numbered
// places, in the order of the recording.
//
// Threads of the recording that did not live at once share a lane. A block that one lane allocates and another one
// touches or ends has a place of its own; all others share the places of their lane. So a lane that meets an empty place
// waits for the one that will fill it, as the recording had it: the lane with the oldest operation can always go on.
//
// Between the operations the program's own work stands, for a replay of nothing but calls keeps their data in the caches and
// has threads meet at every lock. It is scaled to the processor time that the program had for itself, and to at most three
// times what its allocation costs: more would only hide what is compared.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

enum class replay_kind : std::uint8_t {
  allocate,
  zeroed,
  aligned,
  by_new,
  free,
  by_delete,
  reallocate,
  map,
  unmap,
  touch
};

// Where a block comes from instead of malloc.
enum class route_kind : std::uint8_t { heap, pool, buffers, arena };

struct replay_route {
  route_kind kind = route_kind::heap;
  std::uint64_t size = 0;  // pool: of a slot; blocks that are larger stay with malloc
};
inline constexpr std::size_t most_routes = 64;

// Invariant: place < places of the trace; `other` likewise, or none.
struct replay_op {
  std::uint64_t size = 0;
  std::uint32_t place = 0;
  std::uint32_t other =
      0;  // reallocate: the old block's place; allocations and touch: pages that were written
  std::uint32_t order = 0;  // in the recording: its row / order_step
  replay_kind kind = replay_kind::free;
  std::uint8_t route = 0;  // index into the routes: where the block comes from or goes to; of a reallocate: 0
  std::uint8_t alignment = 0;  // its binary logarithm
  std::uint8_t work = 0;       // of the program before it, by work_code.hpp
};
static_assert(sizeof(replay_op) == 24);
inline constexpr std::uint32_t order_step = 16;
inline constexpr std::uint32_t no_place = 0xffffffff;

struct replay_lane {
  std::vector<replay_op> ops;
};

struct trace {
  std::vector<replay_lane> lanes;
  std::vector<replay_route> routes;  // [0]: the heap
  std::uint32_t places = 0;
  std::size_t threads = 0;  // of the recording
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
  double bytes = 0;           // asked for, over all
  double peak_bytes = 0;      // at once, without mappings
  double duration_ns = 0;     // from the first event to the last
  double work_ns = 0;         // of the program's own between the operations
  bool sampled = false;       // made of samples: sampled_events.hpp
  std::uint64_t unknown = 0;  // frees of blocks whose allocation is not in the file
  bool cut = false;           // there were more events than were wanted
  std::string damage;         // of the file; empty: none
};

struct trace_settings {
  std::size_t most_events = 5'000'000;
  std::size_t most_expanded = 1'000'000;  // that samples stand for
  std::size_t most_lanes = 256;
  // By site (index into profile::sites) the route that its blocks take; 0 and what is missing: the heap.
  std::vector<replay_route> routes;
  std::vector<std::uint8_t> route_of_site;
};

// The sites that the advice would serve from pools, as routes. Alternatives (instead_of) count only where no earlier
// advice has the site.
void add_routes(trace_settings& settings, const profile& p, const std::vector<advice>& all);

// The trace of the file `path`, whose profile is `p`: as it was recorded in mode full, otherwise as the samples tell it.
// Throws profile_error: no events, events that contradict each other, more threads at once than lanes.
trace load_trace(const std::string& path, const profile& p, const trace_settings& settings);

}  // namespace tarn::profiler
