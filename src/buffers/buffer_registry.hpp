// SPDX-License-Identifier: MIT
// buffer_registry: every buffer pool there is, and their part in the engine's life: decay, fork, gathering of memory.
//
// Thread safety: any thread. Pools' structures stay in one list for ever; who has ended is used again for the next one.
// So walks take no lock, and the registry's guards the list's growth only.
#pragma once

#include "buffers/buffer_budget.hpp"
#include "buffers/buffer_core.hpp"

// What programs know by its name only.
struct tarn_buffer_pool final : tarn::buffer_core {};

namespace tarn::buffer_registry {

#pragma GCC visibility push(hidden)

extern constinit buffer_budget budget;

// Null: no memory.
tarn_buffer_pool* create(const tarn_buffer_request& request);

// Those that were made last come first. Null: none.
buffer_core* first();

#pragma GCC visibility pop

template <class Visit>
void for_each(Visit visit) {
  for (buffer_core* pool = first(); pool != nullptr; pool = pool->next) visit(*pool);
}

}  // namespace tarn::buffer_registry
