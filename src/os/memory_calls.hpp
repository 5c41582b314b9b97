// SPDX-License-Identifier: MIT
// memory_calls: the calls by which memory that the program may have seen goes back to the system: munmap, and madvise
// with MADV_DONTNEED.
//
// Libraries that register memory with a device (UCX, libfabric, Open MPI, and what stands on them) keep a buffer's
// registration until they hear that its pages go. They listen at libc's functions: they overwrite the first instructions
// with a jump, or define functions of the same names. A page that goes unheard leaves a registration of old memory, and the
// next buffer at that address is sent from there, or received into it. So while somebody listens, these calls are made
// through libc's functions; otherwise they are bare system calls.
//
// A listener may allocate, take locks of its own, and change errno. So it is called
//   - in threads of libc only: the engine's own threads end when somebody listens (background_thread_must_end());
//   - without a lock of the engine, as every system call (memory.hpp);
//   - while the thread is without a cache, so that it may allocate whatever the caller was in the middle of;
//   - never within itself: what a listener frees does not go back meanwhile, as a listener may hold its lock then.
// Thread safety: any thread; errno is left alone.
#pragma once

#include <cstddef>

namespace tarn::os {

#pragma GCC visibility push(hidden)

// Whether somebody listens at either function. Reads some bytes of libc's code.
bool memory_calls_are_heard();
// The same, and the calling thread must not call the listener: it is one of the engine's own, or is in the listener.
bool must_not_be_heard();

// munmap, and madvise(MADV_DONTNEED). False: the system refuses, or must_not_be_heard(), or the process is
// in strict mode (sandbox.hpp).
bool unmap_heard(void* address, std::size_t bytes);
bool drop_heard(void* address, std::size_t bytes);

// While one exists, the thread calls no listener: it holds locks, as in fork's handlers.
class quiet_thread {
 public:
  quiet_thread();
  ~quiet_thread();
  quiet_thread(const quiet_thread&) = delete;
  quiet_thread& operator=(const quiet_thread&) = delete;

 private:
  bool before_;
};

// Runs call(context) while the calling thread has no cache, as if it were about to end; defined in engine/engine.cpp.
void run_without_cache(void (*call)(void*), void* context);

#pragma GCC visibility pop

}  // namespace tarn::os
