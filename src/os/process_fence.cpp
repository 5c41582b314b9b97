// SPDX-License-Identifier: MIT
#include "os/process_fence.hpp"

#include <linux/membarrier.h>

#include <atomic>

#include "os/sandbox.hpp"
#include "os/syscall.hpp"

extern "C" {
// glibc's name. NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
[[gnu::weak]] extern const char __libc_single_threaded;
}

namespace tarn::os {
namespace {

long membarrier(int command) { return system_call(SYS_membarrier, command, 0, 0); }

// With one thread a registration takes 0.5 to 3 us. With more, the kernel waits until every processor has been through its
// scheduler: 5 to 11 ms on 2 processors, some 25 ms on 16, which would fall into some thread's call of malloc.
[[gnu::constructor]] void register_at_load() {
  if (&__libc_single_threaded == nullptr || __libc_single_threaded == 0 || in_sandbox()) return;
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
}

}  // namespace

bool expedited_membarrier(int command, int registration) {
  if (in_sandbox()) return false;
  constexpr long not_registered = -1;  // EPERM; also a forked child's answer
  long result = membarrier(command);
  if (result == not_registered && membarrier(registration) == 0) result = membarrier(command);
  return result == 0;
}

bool process_fence() {
  if (in_sandbox()) return false;
  // Before Linux 4.14 there is only the slow command, which waits for every processor.
  return expedited_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) ||
         membarrier(MEMBARRIER_CMD_GLOBAL) == 0;
}

}  // namespace tarn::os
