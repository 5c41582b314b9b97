// SPDX-License-Identifier: MIT
// What buffer_pool, buffer_allocator and buffer_resource call.
//
// Thread safety: any thread.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "tarn/detail/config.hpp"
#include "tarn/detail/milliseconds.hpp"
#include "tarn/pool.h"

namespace tarn {
TARN_NAMESPACE_BEGIN

namespace detail {

TARN_POOLS_BEGIN

// Aborts where exceptions are disabled.
[[noreturn]] TARN_DETAIL_COLD inline void throw_system_error([[maybe_unused]] int error,
                                                             [[maybe_unused]] const std::string& what) {
#if defined(__cpp_exceptions)
  throw std::system_error(error, std::generic_category(), what);
#else
  std::abort();
#endif
}

inline tarn_buffer_pool* make_buffer_pool(tarn_buffer_options request, const char* name,
                                          milliseconds idle_time) {
  const std::string_view text = name != nullptr ? name : "buffers";
  request.name = text.data();
  request.name_length = text.size();
  request.idle_ms = idle_time.count() < 0 ? -1 : idle_time.count();
  request.checked = TARN_CHECKED_POOLS;
  tarn_buffer_pool* const pool = tarn_buffer_pool_create(&request);
  if (pool == nullptr && errno == EINVAL) {
    throw_system_error(EINVAL, "tarn: a buffer pool's alignment must be a power of two up to 1 GiB, not " +
                                   std::to_string(request.alignment));
  }
  if (pool == nullptr) throw_bad_alloc();
  return pool;
}

inline tarn_buffer_stats stats_of(const tarn_buffer_pool* pool) noexcept {
  tarn_buffer_stats stats{};
  tarn_buffer_get_stats(pool, &stats, sizeof stats);
  return stats;
}

// `pool`, or the process-wide pool if it is null.
inline tarn_buffer_pool* buffer_pool_or_shared(tarn_buffer_pool* pool) {
  if (pool == nullptr) pool = tarn_buffer_pool_shared();
  if (pool == nullptr) throw_bad_alloc();
  return pool;
}
inline void* take_buffer(tarn_buffer_pool* pool, std::size_t bytes) {
  std::size_t capacity = 0;
  void* const memory = tarn_buffer_get(buffer_pool_or_shared(pool), bytes, &capacity);
  if (memory == nullptr) throw_bad_alloc();
  return memory;
}

TARN_POOLS_END

}  // namespace detail

TARN_NAMESPACE_END
}  // namespace tarn
