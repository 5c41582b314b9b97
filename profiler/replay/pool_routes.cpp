// SPDX-License-Identifier: MIT
#include "profiler/replay/pool_routes.hpp"

#include <dlfcn.h>

// Functions that arena.hpp calls. They are not linked here: the libtarn that the process was started under has
// them; otherwise the routes are refused.
#pragma weak tarn_pages_take
#pragma weak tarn_pages_give
#pragma weak tarn_arena_fatal

namespace tarn::profiler {

namespace {

template <class Function>
bool find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace

std::string route_pools::open(const image_header& image) {
  decltype(&tarn_pool_create) make_pool = nullptr;
  decltype(&tarn_buffer_pool_create) make_buffers = nullptr;
  const bool there = find(make_pool, "tarn_pool_create") && find(allocate_slow_, "tarn_pool_allocate_slow") &&
                     find(deallocate_slow_, "tarn_pool_deallocate_slow") &&
                     find(make_buffers, "tarn_buffer_pool_create") && find(buffer_get_, "tarn_buffer_get") &&
                     find(buffer_give_, "tarn_buffer_give_back") &&
                     dlsym(RTLD_DEFAULT, "tarn_pages_take") != nullptr;
  if (!there) return "the libtarn in use has no pools";
  count_ = image.routes;
  for (std::size_t index = 0; index < count_; ++index) {
    routes_[index] = image.route[index];
    if (routes_[index].kind == route_kind::pool) {
      tarn_pool_options request = TARN_POOL_OPTIONS;
      request.object_size = routes_[index].size;
      request.alignment = request.object_size % 16 == 0 ? 16 : 8;
      request.name = "replay";
      request.name_length = 6;
      pools_[index] = make_pool(&request);
      if (pools_[index] == nullptr) return "no memory for a pool";
    } else if (routes_[index].kind == route_kind::buffers) {
      tarn_buffer_options request = TARN_BUFFER_OPTIONS;
      request.alignment = 8192;
      request.name = "replay";
      request.name_length = 6;
      request.idle_ms = 10000;
      buffers_[index] = make_buffers(&request);
      if (buffers_[index] == nullptr) return "no memory for a buffer pool";
    }
  }
  return {};
}

route_set::route_set(const route_pools& pools) : pools_(pools) {
  for (tarn_pool_bin*& bin : bins_) bin = &tarn::detail::no_bin.bin;
}

void* route_set::take(std::size_t route, std::size_t bytes) {
  switch (pools_.routes_[route].kind) {
    case route_kind::pool: {
      void* const slot = tarn::detail::pop(bins_[route]);
      return slot != nullptr ? slot : pools_.allocate_slow_(pools_.pools_[route], &bins_[route]);
    }
    case route_kind::buffers: {
      std::size_t capacity = 0;
      return pools_.buffer_get_(pools_.buffers_[route], bytes, &capacity);
    }
    case route_kind::arena: {
      void* const block = arenas_[route].try_allocate(bytes);
      if (block != nullptr) ++in_arena_[route];
      return block;
    }
    case route_kind::heap:
      break;
  }
  return nullptr;
}

void route_set::give(std::size_t route, void* block) {
  switch (pools_.routes_[route].kind) {
    case route_kind::pool:
      if (!tarn::detail::push(bins_[route], block)) {
        pools_.deallocate_slow_(pools_.pools_[route], &bins_[route], block);
      }
      break;
    case route_kind::buffers:
      pools_.buffer_give_(pools_.buffers_[route], block);
      break;
    case route_kind::arena:
      // Blocks that another lane frees stay until the end of the replay.
      if (in_arena_[route] > 0 && --in_arena_[route] == 0) arenas_[route].reset();
      break;
    case route_kind::heap:
      break;
  }
}

}  // namespace tarn::profiler
