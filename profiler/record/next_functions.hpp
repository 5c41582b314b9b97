// SPDX-License-Identifier: MIT
// next_functions: the program's own functions, which the hooks stand in front of. Any thread, once they are looked up.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>

namespace tarn::profiler::recorder {

// The program's own functions. Null where there is none. All are looked up before the program's first thread, since dlsym
// waits for the dynamic linker's lock: a constructor that holds it may wait for the thread that calls a hook.
struct real_functions {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*reallocarray)(void*, std::size_t, std::size_t);
  void (*free)(void*);
  void (*free_sized)(void*, std::size_t);
  void (*free_aligned_sized)(void*, std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  std::size_t (*malloc_usable_size)(void*);
  // Forwarded to what the program would call: another library may stand in front of libc's, too.
  int (*prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
  long (*syscall)(long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                  unsigned long);
  int (*pthread_setname_np)(pthread_t, const char*);
  int (*dlclose)(void*);
  void* (*mmap)(void*, std::size_t, int, int, int, off_t);
  void* (*mmap64)(void*, std::size_t, int, int, int, off64_t);
  int (*munmap)(void*, std::size_t);
  void* (*mremap)(void*, std::size_t, std::size_t, int, void*);
  void (*exit_now)(int);    // _exit
  void (*c_exit_now)(int);  // _Exit
};
extern constinit real_functions real;

// Fills those of the malloc family.
void look_up_malloc(real_functions& into);

}  // namespace tarn::profiler::recorder
