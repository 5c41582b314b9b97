// SPDX-License-Identifier: MIT
#include "os/process_fence.hpp"

#include <linux/membarrier.h>

#include <atomic>

#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

long membarrier(int command) { return system_call(SYS_membarrier, command, 0, 0); }

}  // namespace

bool process_fence() {
  if (in_sandbox()) return false;
  constexpr long not_registered = -1;  // EPERM; also a forked child's answer
  long result = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  if (result == not_registered && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0) {
    result = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
  // Before Linux 4.14 there is only the slow command, which waits for every processor.
  return result == 0 || membarrier(MEMBARRIER_CMD_GLOBAL) == 0;
}

}  // namespace tarn::os
