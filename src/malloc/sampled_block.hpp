// SPDX-License-Identifier: MIT
// sampled_block: the block that malloc's slow path hands out in place of an object because the allocation is a sample: a
// guarded one (samples/guarded/guarded_blocks.hpp), or one that the heap profile follows (samples/followed/heap_samples.hpp).
//
// Thread safety: any thread.
#pragma once

#include <cstddef>

#include "malloc/thread_mode.hpp"

namespace tarn::sampled_block {

// For an allocation of a thread in this mode that its bins have not served. Null: no sample is due, or it is refused; the
// caller takes an object. Counts the allocation for tests (allocation_counts.hpp), and in a countdown that is not the
// bin's.
void* take(thread_mode mode, unsigned size_class, std::size_t size);

// The same for an allocation past the caches, which no test counts.
void* take_by_bytes(unsigned size_class, std::size_t size);

}  // namespace tarn::sampled_block
