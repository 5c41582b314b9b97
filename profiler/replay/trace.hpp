// SPDX-License-Identifier: MIT
// trace: the heap operations of a program, prepared for replay: for each thread a list of operations on numbered
// places, in the order of the recording. A place holds one block at a time.
//
// Threads of the recording that did not live at the same time share a lane. A block that one lane allocates and
// another touches or frees has a place of its own; all others share the places of their lane. A lane that meets an
// empty place waits for the lane that will fill it, as in the recording. There is no deadlock: the lane with the
// oldest operation can always proceed.
//
// Between operations the lane computes, in the place of the program's own work: a replay of calls alone would keep
// their data in the caches, and threads would meet at every lock. The work is scaled to the program's own processor
// time, and to at most three times the cost of its allocation, as more would hide what is compared. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
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

// The source of a block; `heap` is malloc.
enum class route_kind : std::uint8_t { heap, pool, buffers, arena };

struct replay_route {
  route_kind kind = route_kind::heap;
  std::uint64_t size = 0;  // pool: bytes of a slot; larger blocks stay with malloc
};
inline constexpr std::size_t most_routes = 64;

// Invariant: place < places of the trace; `other` likewise, or none.
struct replay_op {
  std::uint64_t size = 0;
  std::uint32_t place = 0;
  // Reallocate: the old block's place; allocations and touch: pages that were written.
  std::uint32_t other = 0;
  std::uint32_t order = 0;  // in the recording: its row / order_step
  replay_kind kind = replay_kind::free;
  std::uint8_t route = 0;  // index into the routes: where the block comes from or goes to; of a reallocate: 0
  std::uint8_t alignment = 0;  // binary logarithm of the alignment
  std::uint8_t work = 0;       // the program's work before the operation, in the code of work_code.hpp
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
  std::uint64_t page_bytes = 4096;  // of the recording: operations count its pages
  std::size_t threads = 0;          // of the recording
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
  double bytes = 0;           // requested bytes, over the whole trace
  double peak_bytes = 0;      // highest live bytes, without mappings
  double duration_ns = 0;     // from the first event to the last
  double work_ns = 0;         // the program's own work between the operations
  bool sampled = false;       // expanded from samples (sampled_events.hpp)
  std::uint64_t unknown = 0;  // frees of blocks whose allocation is not in the file
  bool cut = false;           // there were more events than were wanted
  std::string damage;         // of the file; empty: none
};

struct trace_settings {
  std::size_t most_events = 5'000'000;
  std::size_t most_expanded = 1'000'000;  // events made from samples, at most
  std::size_t most_lanes = 256;
  // route_of_site[index into profile::sites] is the index of the route that the site's blocks take; 0, or beyond
  // its end: the heap.
  std::vector<replay_route> routes;
  std::vector<std::uint8_t> route_of_site;
};

// Adds routes for the sites that the advice would serve from pools. Alternatives (instead_of) count only for sites
// that no earlier advice has.
void add_routes(trace_settings& settings, const profile& p, const std::vector<advice>& all);

// The trace of the file `path`, whose profile is `p`: as recorded in mode full, otherwise expanded from samples.
// Throws profile_error: no events, contradictory events, or more simultaneous threads than lanes.
trace load_trace(const std::string& path, const profile& p, const trace_settings& settings);

}  // namespace tarn::profiler
