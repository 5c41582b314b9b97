// SPDX-License-Identifier: MIT
// next_operators: the forms of operator new and delete that the hooks stand in front of: those of the program's C++ library or
// of its allocator. Any thread.
//
// A C program may load C++ libraries later, whose calls then find this library's operators. libstdc++'s own are not
// looked up then, since dlsym takes the dynamic linker's lock: malloc and free serve, as they serve libstdc++'s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace tarn::profiler::recorder {

struct operators {
  void* (*make)(std::size_t);
  void* (*make_array)(std::size_t);
  void* (*make_nothrow)(std::size_t, const std::nothrow_t&);
  void* (*make_array_nothrow)(std::size_t, const std::nothrow_t&);
  void* (*make_aligned)(std::size_t, std::align_val_t);
  void* (*make_array_aligned)(std::size_t, std::align_val_t);
  void* (*make_aligned_nothrow)(std::size_t, std::align_val_t, const std::nothrow_t&);
  void* (*make_array_aligned_nothrow)(std::size_t, std::align_val_t, const std::nothrow_t&);
  void (*drop)(void*);
  void (*drop_array)(void*);
  void (*drop_sized)(void*, std::size_t);
  void (*drop_array_sized)(void*, std::size_t);
  void (*drop_aligned)(void*, std::align_val_t);
  void (*drop_array_aligned)(void*, std::align_val_t);
  void (*drop_sized_aligned)(void*, std::size_t, std::align_val_t);
  void (*drop_array_sized_aligned)(void*, std::size_t, std::align_val_t);
  std::uintptr_t library;  // an address within the library of operator new
  bool are_there;          // false: the program has no C++ library
  // All operators without an alignment go to the program's malloc, past this library's hooks.
  bool are_short;
};

// Requires that the malloc family of `real` is filled.
operators look_up_operators();

}  // namespace tarn::profiler::recorder
