// SPDX-License-Identifier: MIT
// live_slots: which slots of a pool hold objects at one moment, for programs that visit all objects of a pool.
//
// The free bits of a span say which slots lie free in the span. A slot in a magazine (a thread's, or one handed over)
// has no bit set, like a live one. So the bits of all slots in magazines are set, the spans' bits are copied, and the
// slots' bits are cleared again, all under the locks of the pool's shards. Fast paths do nothing for this: other
// threads' magazines are only read, while these threads do not use the pool.
//
// Thread safety: as tarn_pool_take_snapshot().
#pragma once

#include "tarn/detail/pool_bin.hpp"

namespace tarn::live_slots {

#pragma GCC visibility push(hidden)

const tarn_pool_snapshot* take(tarn_pool& pool);
void drop(const tarn_pool_snapshot* snapshot);

#pragma GCC visibility pop

}  // namespace tarn::live_slots
