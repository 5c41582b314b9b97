// SPDX-License-Identifier: MIT
// buffer_group: what the buffer pools of a process share: their budget, and the list in which they find each other.
//
//   newest ──> buffer_core ──next──> buffer_core ──next──> ... the oldest
//
// Thread safety: any thread. A pool's structure stays in the list for ever; that of an ended pool is reused for the
// next one. So walks take no lock; the lock guards only the growth of the list.
// Invariants: pools = length of the list; each pool in it is one of this group.
#pragma once

#include <atomic>
#include <cstddef>

#include "fronts/buffers/buffer_budget.hpp"
#include "os/mutex.hpp"

namespace tarn {

class buffer_core;

struct buffer_group {
  // Adds a pool of this group, which is complete, to the list.
  void add(buffer_core& pool);
  void validate_locked() const TARN_REQUIRES(lock);

  buffer_budget budget;
  os::mutex lock{os::lock_rank::pools};
  std::atomic<buffer_core*> newest{nullptr};  // written under the lock
  std::size_t pools TARN_GUARDED_BY(lock) = 0;
};

}  // namespace tarn
