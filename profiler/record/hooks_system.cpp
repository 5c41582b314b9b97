// SPDX-License-Identifier: MIT
// Hooks of the program's own mmap calls, of thread names, of dlclose, and of the end of the process. dlopen is not
// hooked, as it searches libraries depending on its caller; a new library is noticed when a call path leads through
// it.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/syscall.hpp"
#include "profiler/record/forward.hpp"
#include "profiler/record/origin.hpp"
#include "profiler/record/recorder.hpp"
#include "profiler/record/symbol_search.hpp"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

void* told(void* memory, std::size_t bytes, const call_origin& origin) {
  if (memory != MAP_FAILED) mapped(memory, bytes, origin);
  return memory;
}

[[noreturn]] void end_process(void (*next)(int), int status) {
  process_ends(ending_by::exit);
  if (next != nullptr) next(status);
  for (;;) tarn::os::system_call(SYS_exit_group, status);
}

}  // namespace

// Parameters have the project's names, not libc's. NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)
extern "C" {

void* mmap(void* start, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return told(forward(real.mmap, SYS_mmap, start, bytes, protection, flags, file, offset), bytes, caller());
}

void* mmap64(void* start, std::size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  return told(forward(real.mmap64, SYS_mmap, start, bytes, protection, flags, file, offset), bytes, caller());
}

int munmap(void* start, std::size_t bytes) noexcept {
  const bool is_told = unmapping(start, bytes);
  const int result = forward(real.munmap, SYS_munmap, start, bytes);
  if (result != 0 && is_told) unmap_refused(start);
  return result;
}

// libc declares it with an ellipsis: see hooks_sandbox.cpp.
void* tarn_recorder_mremap(void* start, std::size_t old_bytes, std::size_t bytes, int flags,
                           void* wanted) noexcept __asm__("mremap");
void* tarn_recorder_mremap(void* start, std::size_t old_bytes, std::size_t bytes, int flags,
                           void* wanted) noexcept {
  const bool stays = (flags & MREMAP_DONTUNMAP) != 0 || old_bytes == 0;
  const bool is_told = !stays && unmapping(start, old_bytes);
  void* const memory = forward(real.mremap, SYS_mremap, start, old_bytes, bytes, flags, wanted);
  if (memory == MAP_FAILED && is_told) unmap_refused(start);
  return told(memory, bytes, caller());
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
[[gnu::noreturn]] void _exit(int status) { end_process(real.exit_now, status); }
[[gnu::noreturn]] void _Exit(int status) noexcept { end_process(real.c_exit_now, status); }

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
