// SPDX-License-Identifier: MIT
// buffer_registry: the group of the process's buffer pools, which grows by create(), and its part in decay, fork and
// the gathering of memory.
//
// Thread safety: any thread.
#pragma once

#include "engine/metrics.hpp"
#include "fronts/buffers/buffer_core.hpp"

// The type that the public headers declare.
struct tarn_buffer_pool final : tarn::buffer_core {
  using buffer_core::buffer_core;
};

namespace tarn::buffer_registry {

#pragma GCC visibility push(hidden)

extern constinit buffer_group group;
// The figures of all buffer pools.
extern const metric_group metrics;

// Null when there is no memory.
tarn_buffer_pool* create(const tarn_buffer_options& request);

#pragma GCC visibility pop

template <class Visit>
void for_each(Visit visit) {
  for_each_pool(group, visit);
}

}  // namespace tarn::buffer_registry
