// SPDX-License-Identifier: MIT
// pool_routes: the pools from which a replay serves blocks, found in the libtarn that the process was started
// under, as the profiler itself links no allocator. A route_set belongs to one lane; the pools behind it are shared
// by all lanes.
#pragma once

#include <cstddef>
#include <string>

#include "profiler/replay/trace_image.hpp"
#include "tarn/arena.hpp"
#include "tarn/detail/pool_bin.hpp"
#include "tarn/pool.h"

namespace tarn::profiler {

// Made once, before the lanes.
class route_pools {
 public:
  // Finds and opens the pools. Returns the reason if that fails; empty: success.
  std::string open(const image_header& image);

 private:
  friend class route_set;
  std::size_t count_ = 0;
  replay_route routes_[most_routes];
  tarn_pool* pools_[most_routes] = {};
  tarn_buffer_pool* buffers_[most_routes] = {};
  decltype(&tarn_pool_allocate_slow) allocate_slow_ = nullptr;
  decltype(&tarn_pool_deallocate_slow) deallocate_slow_ = nullptr;
  decltype(&tarn_buffer_get) buffer_get_ = nullptr;
  decltype(&tarn_buffer_give_back) buffer_give_ = nullptr;
};

class route_set {
 public:
  explicit route_set(const route_pools& pools);

  void* take(std::size_t route, std::size_t bytes);
  void give(std::size_t route, void* block);

 private:
  const route_pools& pools_;
  tarn_pool_bin* bins_[most_routes];
  // One arena per route of this lane, reset when no block in it is alive.
  tarn::arena arenas_[most_routes];
  std::size_t in_arena_[most_routes] = {};
};

}  // namespace tarn::profiler
