// SPDX-License-Identifier: MIT
// Finds the program's own functions, and where the code of its malloc lies. Thread safety: any thread; the first one to look
// them up does so alone.
#include "profiler/record/next_functions.hpp"

#include <errno.h>

#include "profiler/record/recorder.hpp"
#include "profiler/record/recorder_state.hpp"
#include "profiler/record/symbol_search.hpp"

namespace tarn::profiler::recorder {

constinit real_functions real = {};

namespace {

std::uintptr_t allocator_start = 0;
std::uintptr_t allocator_end = 0;
std::uintptr_t new_start = 0;
std::uintptr_t new_end = 0;
std::atomic<std::uint32_t> functions_found{0};  // 0 no, 1 lookup in progress, 2 yes

template <class function>
void look_up(function& into, const char* name) {
  into = reinterpret_cast<function>(find_next(name));
}

}  // namespace

bool find_real_functions() {
  // acquire: partner of the release below: `real` is filled
  if (functions_found.load(std::memory_order_acquire) == 2) return true;
  // dlsym may itself allocate: until the functions are known, the early store serves this thread and all others.
  if (functions_found.exchange(1, std::memory_order_acquire) != 0) return false;
  const std::uint8_t before = self.busy;
  self.busy = calling;
  const int error = errno;
  real_functions found;
  look_up_malloc(found);
  look_up(found.prctl, "prctl");
  look_up(found.syscall, "syscall");
  look_up(found.pthread_setname_np, "pthread_setname_np");
  look_up(found.dlclose, "dlclose");
  look_up(found.mmap, "mmap");
  look_up(found.mmap64, "mmap64");
  look_up(found.munmap, "munmap");
  look_up(found.mremap, "mremap");
  look_up(found.exit_now, "_exit");
  look_up(found.c_exit_now, "_Exit");
  real = found;
  loaded_module module;
  if (find_module(reinterpret_cast<std::uintptr_t>(real.malloc), module)) {
    allocator_start = module.start;
    allocator_end = module.end;
  }
  functions_found.store(2, std::memory_order_release);
  errno = error;
  self.busy = before;
  return true;
}

void set_new_module(std::uintptr_t address_within) {
  loaded_module module;
  if (!find_module(address_within, module)) return;
  new_start = module.start;
  new_end = module.end;
}

bool is_inner_call(std::uintptr_t return_address, bool consume) {
  if (self.in_new == 0) return false;
  // operator new[] may end in a jump to operator new, which then returns to the recorder itself.
  if (!is_recorders(return_address) && (return_address < new_start || return_address >= new_end))
    return false;
  if (consume) self.in_new = 0;
  return true;
}

bool is_allocators(const call_origin& origin) {
  return origin.return_address >= allocator_start && origin.return_address < allocator_end;
}

}  // namespace tarn::profiler::recorder
