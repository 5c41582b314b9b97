// SPDX-License-Identifier: MIT
// buffer_group: what the buffer pools of a process share: their budget, and the list in which they find each other.
//
//   newest ──> buffer_core ──next──> buffer_core ──next──> ... the oldest
//
// Thread safety: any thread. A pool's structure stays in the list for ever; that of an ended pool is reused for the next
// one. So walks take no lock; the lock guards only the growth of the list.
#pragma once

#include <atomic>

#include "buffers/buffer_budget.hpp"
#include "os/mutex.hpp"

namespace tarn {

class buffer_core;

struct buffer_group {
  buffer_budget budget;
  os::mutex lock{os::lock_rank::pools};
  std::atomic<buffer_core*> newest{nullptr};  // written under the lock
};

}  // namespace tarn
