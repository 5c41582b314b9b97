// SPDX-License-Identifier: MIT
// counted_malloc.hpp: counts what the calling thread asks of malloc, by standing before glibc's. operator new comes
// here
//   too. Include it in one file of a program.
// Cost: two additions for each allocation; too little to show in the scenes that count.
#pragma once

#include <cerrno>
#include <cstddef>

#include "variants.hpp"

// glibc's own names for its functions; what they return, its free() takes.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace bench {

struct allocation_counts {
  std::size_t calls = 0;
  std::size_t bytes = 0;
};
inline constinit thread_local allocation_counts allocations;

inline void count_allocation(std::size_t size) {
  ++allocations.calls;
  allocations.bytes += size;
}

// Times `work`, which does one operation, and prints ns, allocations and allocated bytes of one.
template <class work_type>
void report_counted(const scene_arguments& arguments, std::size_t operations_per_call, work_type work) {
  const auto many = [&] {
    for (std::size_t i = 0; i < operations_per_call; ++i) work();
  };
  many();
  const allocation_counts before = allocations;
  const timing all = time_calls(limit_of(arguments), many);
  // time_calls makes one call more than it times.
  const auto counted = static_cast<double>((all.calls + 1) * operations_per_call);
  std::printf("{\"ns\": %.3f, \"allocations\": %.3f, \"bytes\": %.1f}\n",
              nanoseconds(all.seconds, all.calls * operations_per_call),
              static_cast<double>(allocations.calls - before.calls) / counted,
              static_cast<double>(allocations.bytes - before.bytes) / counted);
}

}  // namespace bench

extern "C" {

void* malloc(std::size_t size) {
  bench::count_allocation(size);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  bench::count_allocation(count * size);
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) {
  bench::count_allocation(size);
  return __libc_realloc(block, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  bench::count_allocation(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  bench::count_allocation(size);
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"
