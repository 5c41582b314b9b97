// SPDX-License-Identifier: MIT
// buffer_registry: the list of all buffer pools, and their part in decay, fork and the gathering of memory.
//
// Thread safety: any thread. Structures of pools stay in the list for ever; that of an ended pool is reused for the
// next one. So walks take no lock; the registry's lock guards only the growth of the list.
#pragma once

#include "buffers/buffer_budget.hpp"
#include "buffers/buffer_core.hpp"

// The type that the public headers declare.
struct tarn_buffer_pool final : tarn::buffer_core {};

namespace tarn::buffer_registry {

#pragma GCC visibility push(hidden)

extern constinit buffer_budget budget;

// Null when there is no memory.
tarn_buffer_pool* create(const tarn_buffer_request& request);

// The newest structure; its `next` leads to older ones. Null if there is none.
buffer_core* first();

#pragma GCC visibility pop

template <class Visit>
void for_each(Visit visit) {
  for (buffer_core* pool = first(); pool != nullptr; pool = pool->next) visit(*pool);
}

}  // namespace tarn::buffer_registry
