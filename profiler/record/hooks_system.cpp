// SPDX-License-Identifier: MIT
// Hooks of the program's own mmap calls, of thread names, of dlclose, and of the end of the process. dlopen is not
// hooked, as it searches libraries depending on its caller; a new library is noticed when a call path leads through
// it.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/syscall.hpp"
#include "profiler/record/origin.hpp"
#include "profiler/record/real_functions.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

// Sets errno as libc's wrapper does.
long checked(long result) {
  if (result >= 0 || result <= -4096) return result;
  errno = static_cast<int>(-result);
  return -1;
}

void* map(void* start, std::size_t bytes, int protection, int flags, int file, off_t offset,
          const call_origin& origin) {
  const long result = checked(tarn::os::system_call(
      SYS_mmap, reinterpret_cast<long>(start), static_cast<long>(bytes), protection, flags, file, offset));
  auto* memory = reinterpret_cast<void*>(result);
  if (memory != MAP_FAILED) mapped(memory, bytes, (flags & MAP_ANONYMOUS) != 0, origin);
  return memory;
}

}  // namespace

// Parameters have the project's names, not libc's. NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)
extern "C" {

void* mmap(void* start, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return map(start, bytes, protection, flags, file, offset, caller());
}

void* mmap64(void* start, std::size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  return map(start, bytes, protection, flags, file, offset, caller());
}

int munmap(void* start, std::size_t bytes) noexcept {
  unmapped(start, bytes);
  return static_cast<int>(
      checked(tarn::os::system_call(SYS_munmap, reinterpret_cast<long>(start), static_cast<long>(bytes))));
}

void* mremap(void* start, std::size_t old_bytes, std::size_t bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  unmapped(start, old_bytes);
  const long result =
      checked(tarn::os::system_call(SYS_mremap, reinterpret_cast<long>(start), static_cast<long>(old_bytes),
                                    static_cast<long>(bytes), flags, reinterpret_cast<long>(wanted)));
  auto* memory = reinterpret_cast<void*>(result);
  const bool moved = memory != MAP_FAILED;
  mapped(moved ? memory : start, moved ? bytes : old_bytes, true, caller());
  return memory;
}

int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  if (real.pthread_setname_np == nullptr) return ENOSYS;
  const int result = real.pthread_setname_np(thread, name);
  if (result == 0 && pthread_equal(thread, pthread_self()) != 0) thread_named(name);
  return result;
}

int dlclose(void* library) {
  if (real.dlclose == nullptr) return -1;
  library_closing();
  const int result = real.dlclose(library);
  library_closed();
  return result;
}

// Ends a process without exit handlers, as many forked children do.
[[gnu::noreturn]] void _exit(int status) {
  process_ends(ending_by::exit);
  for (;;) tarn::os::system_call(SYS_exit_group, status);
}

[[gnu::noreturn]] void _Exit(int status) noexcept { _exit(status); }

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

namespace {

[[gnu::constructor(101)]] void begin() {
  // In a running program, tarn_record_attach begins the recording.
  if (!find_real_functions() || !is_preloaded()) return;
  look_for_operators();
  start();
}

[[gnu::destructor(101)]] void end() { process_ends(ending_by::exit); }

}  // namespace
