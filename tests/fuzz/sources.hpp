// SPDX-License-Identifier: MIT
// The fuzzer's sources of memory besides malloc, and its threads: one of each for the whole process, so that caches
// keep their contents from one input to the next.
//
// Thread safety: any thread may ask for them and use them.
#pragma once

#include <cstddef>
#include <string>

#include "model.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/malloc.h"
#include "tarn/pool.hpp"
#include "tarn/recycler.hpp"
#include "tarn/resources.hpp"
#include "workers.hpp"
#if !TARN_FUZZ_SHARED
#include "engine/engine.hpp"
#endif

namespace tarn::fuzz {

struct node {
  unsigned char bytes[72];
};
struct other_node {
  alignas(64) unsigned char bytes[192];
};

inline workers& threads() {
  static auto* const all = new workers;
  return *all;
}
inline object_pool<node>& own_pool() {
  static auto* const pool = new object_pool<node>;
  return *pool;
}
inline pool_resource& resource() {
  static auto* const one = new pool_resource;
  return *one;
}
inline recycler<std::string>& texts() {
  static auto* const one = new recycler<std::string>;
  return *one;
}
inline buffer_pool& buffers(bool zeroed) {
  static auto* const plain = new buffer_pool;
  static auto* const zero = [] {
    buffer_pool_options options;
    options.zeroed = true;
    return new buffer_pool(options);
  }();
  return zeroed ? *zero : *plain;
}

// Checks the engine's invariants; in the hardened library, whose symbols are hidden, only that its statistics add up.
inline void validate_heap() {
#if TARN_FUZZ_SHARED
  tarn_stats stats;
  tarn_get_stats(&stats);
  require(stats.large + stats.cached <= stats.in_use, "statistics do not add up");
#else
  engine::heap.validate();
#endif
}

inline void check_zero(const void* memory, std::size_t size) {
  const auto* const bytes = static_cast<const unsigned char*>(memory);
  for (std::size_t i = 0; i < size; ++i) require(bytes[i] == 0, "a byte that is not zero", bytes + i);
}

}  // namespace tarn::fuzz
