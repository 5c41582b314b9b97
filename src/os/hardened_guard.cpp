// SPDX-License-Identifier: MIT
#include "os/hardened_guard.hpp"

#include <sys/mman.h>

#include <atomic>

#include "base/units.hpp"
#include "os/memory.hpp"
#include "os/memory_calls.hpp"
#include "os/syscall.hpp"

// Linux 6.13.
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

namespace tarn::os {
namespace {

// Which of the two kinds of guard this process has ever used. Both are possible: the kernel refuses markers in locked
// memory.
std::atomic<bool> has_markers{false};
std::atomic<bool> has_protected{false};

bool succeeds(long number, void* address, std::size_t bytes, int argument) {
  return system_call(number, address, bytes, argument) == 0;
}

}  // namespace

bool mark_guard(void* address, std::size_t bytes) {
  // Nobody who listens for memory that goes knows of markers.
  if (memory_calls_are_heard() && !drop_heard(address, bytes)) return false;
  if (!succeeds(SYS_madvise, address, bytes, MADV_GUARD_INSTALL)) return false;
  has_markers.store(true, std::memory_order_relaxed);
  return true;
}

bool protect_guard(void* address, std::size_t bytes) {
  has_protected.store(true, std::memory_order_relaxed);
  return purge_free(address, bytes) && succeeds(SYS_mprotect, address, bytes, PROT_NONE);
}

bool remove_guard(void* address, std::size_t bytes) {
  if (has_markers.load(std::memory_order_relaxed) &&
      !succeeds(SYS_madvise, address, bytes, MADV_GUARD_REMOVE)) {
    return false;
  }
  return !has_protected.load(std::memory_order_relaxed) ||
         succeeds(SYS_mprotect, address, bytes, PROT_READ | PROT_WRITE);
}

}  // namespace tarn::os
