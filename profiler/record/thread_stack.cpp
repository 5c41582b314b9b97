// SPDX-License-Identifier: MIT
// thread_stack: where the stack of a recording thread lies, and which memory of its current stack may be read.
// Thread safety: each thread asks for itself.
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "os/syscall.hpp"
#include "profiler/record/own_calls.hpp"
#include "profiler/record/recorder_state.hpp"

// Defined by ld.so: an address near the upper end of the main thread's stack, above all frames.
extern "C" [[gnu::weak]] void* __libc_stack_end;  // NOLINT(readability-identifier-naming): its name

namespace tarn::profiler::recorder {

namespace {

constexpr std::uintptr_t usual_stack_bytes = std::uintptr_t{8} << 20;

// Looks up the mapping around `address` in /proc/self/maps.
stack_bounds find_mapping(std::uintptr_t address) {
  stack_bounds found;
  const long file =
      own_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/maps"), O_RDONLY | O_CLOEXEC);
  if (failed(file)) return found;
  char buffer[1024];
  std::uintptr_t numbers[2] = {0, 0};
  unsigned field = 0;  // 0 and 1: the two numbers; 2: the rest of the line
  for (;;) {
    const long size = os::system_call(SYS_read, file, reinterpret_cast<long>(buffer), sizeof buffer);
    if (size <= 0) break;
    for (long index = 0; index < size && found.high == 0; ++index) {
      const char unit = buffer[index];
      if (unit == '\n') {
        if (address >= numbers[0] && address < numbers[1]) found = {numbers[0], numbers[1]};
        numbers[0] = numbers[1] = 0;
        field = 0;
      } else if (field < 2 && (unit == '-' || unit == ' ')) {
        ++field;
      } else if (field < 2) {
        numbers[field] =
            numbers[field] << 4 | static_cast<std::uintptr_t>(unit <= '9' ? unit - '0' : unit - 'a' + 10);
      }
    }
    if (found.high != 0) break;
  }
  os::system_call(SYS_close, file);
  return found;
}

// The first thread's stack grows downwards on demand: looks up its lower end again if the stack pointer is below
// the known one.
bool has_grown_to(thread_state& thread, std::uintptr_t stack_pointer) {
  if (stack_pointer >= thread.own_stack.low || stack_pointer < thread.lowest_stack) return false;
  const stack_bounds now = find_mapping(stack_pointer);
  if (now.high != thread.own_stack.high) return false;
  thread.own_stack.low = now.low;
  return true;
}

}  // namespace

void find_own_stack(thread_state& state) {
  state.own_stack = {};
  state.lowest_stack = ~std::uintptr_t{0};
  // pthread_getattr_np also makes a system call (sched_getaffinity), which a sandbox may forbid.
  if (in_sandbox()) return;
  if (state.id == os::system_call(SYS_getpid) && &__libc_stack_end != nullptr) {
    state.own_stack = find_mapping(reinterpret_cast<std::uintptr_t>(__libc_stack_end));
    rlimit limit = {};
    const bool limited = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < 64 * usual_stack_bytes;
    state.lowest_stack = state.own_stack.high - (limited ? limit.rlim_cur : usual_stack_bytes);
    return;
  }
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
    state.own_stack.low = reinterpret_cast<std::uintptr_t>(low);
    state.own_stack.high = state.own_stack.low + bytes;
  }
  pthread_attr_destroy(&attributes);
}

stack_memory stack_of(thread_state& thread, std::uintptr_t stack_pointer) {
  if (thread.own_stack.contain(stack_pointer) || has_grown_to(thread, stack_pointer)) {
    return stack_memory(thread.own_stack);
  }
  return stack_memory(stack_pointer, stack_memory::question::sigprocmask);
}

}  // namespace tarn::profiler::recorder
