// SPDX-License-Identifier: MIT
// lock_statistics: the figures of all locks by name (os/contention.hpp), with what depots and shards exchanged.
// Thread safety: any thread that holds no lock.
#pragma once

#include "tarn/malloc.h"

namespace tarn::lock_statistics {

// See tarn_visit_locks().
void visit(void (*visitor)(void* context, const tarn_lock_stats* stats), void* context);

}  // namespace tarn::lock_statistics
