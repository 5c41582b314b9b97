// SPDX-License-Identifier: MIT
#include "os/own_threads/thread_memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "base/units.hpp"
#include "os/memory.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {

constinit sealed<load_values> at_load;

namespace {

constexpr std::size_t stack_bytes = 128 * kib;
// Space for the libraries' thread-local data, below the thread pointer (x86-64) or above it (aarch64): at least this
// much. Code compiled with stack protection or checks may read there, and the control thread uses this library's.
constexpr std::size_t least_thread_data_bytes = 16 * kib;

// Where this library's thread-local data begins and ends, about: one variable of each of its two parts.
thread_local constinit int initialised_data = 1;
thread_local constinit int zeroed_data = 0;

// So much that this library's thread-local data fits, which a program linked with the archive may put far away.
std::size_t data_bytes_needed() {
  constexpr std::size_t all_of_library = 8 * kib;
  const auto pointer = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  std::size_t most = 0;
  for (const int* const probe : {&initialised_data, &zeroed_data}) {
    const auto address = reinterpret_cast<std::uintptr_t>(probe);
    most = std::max(most, address < pointer ? pointer - address : address - pointer);
  }
  return align_up(std::max(most + all_of_library, least_thread_data_bytes), 64);
}

std::size_t stack_part(std::size_t data_bytes) {
  return align_up(stack_bytes + 2 * data_bytes, system_page_size());
}

void map_home(load_values& out) {
  const std::size_t page = system_page_size();
  out.data_bytes = data_bytes_needed();
  const std::size_t part = stack_part(out.data_bytes) + page;
  const std::size_t bytes = 3 * page + engine_threads * part;
  const long home =
      system_call(SYS_mmap, 0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (is_error(home)) return;
  const long control = home + static_cast<long>(page);
  if (system_call(SYS_mprotect, control, page, PROT_READ | PROT_WRITE) != 0 ||
      system_call(SYS_madvise, control, page, MADV_WIPEONFORK) != 0) {
    system_call(SYS_munmap, home, bytes);
    return;
  }
  out.control = reinterpret_cast<thread_control*>(control);
  for (unsigned i = 0; i < engine_threads; ++i)
    out.stacks[i] = reinterpret_cast<char*>(control) + 2 * page + i * part;
}

// Whether the calling thread has a list of robust mutexes. libc gives each thread one. A child starts without one; libc
// restores it after fork but not after vfork.
bool has_robust_list() {
  void* head = nullptr;
  std::size_t bytes = 0;
  return system_call(SYS_get_robust_list, 0, &head, &bytes) == 0 && head != nullptr;
}

[[gnu::constructor(101)]] void note_load_values() {
  load_values values;
  map_home(values);
  if (!in_sandbox()) {
    values.is_known = true;
    values.processors_bytes = processors_of_this_thread(values.processors);
    values.nice = nice_of_this_thread();
  }
  at_load.seal(values);
  if (values.is_known && values.control != nullptr) note_process(values.control);
}

}  // namespace

// Whether the caller is in the process with the id `noted`. Process 1 may have a vfork child that is process 1 of
// another namespace, so there the robust list decides.
bool is_process(const thread_control* c, long noted) {
  return system_call(SYS_getpid) == noted &&
         (!c->is_first_of_namespace.load(std::memory_order_relaxed) || has_robust_list());
}

void note_process(thread_control* c) {
  const long self = system_call(SYS_getpid);
  c->is_first_of_namespace.store(self == 1 && has_robust_list(), std::memory_order_relaxed);
  c->process.store(self, std::memory_order_relaxed);
}

long nice_of_this_thread() { return 20 - system_call(SYS_getpriority, PRIO_PROCESS, 0); }

long processors_of_this_thread(processor_set& out) {
  const long bytes = system_call(SYS_sched_getaffinity, 0, sizeof out, &out);
  return bytes > 0 ? bytes : 0;
}

char* stack_top_of(engine_thread which) {
  return at_load->stacks[static_cast<unsigned>(which)] + stack_bytes;
}

char* thread_pointer_of(engine_thread which) { return stack_top_of(which) + at_load->data_bytes; }

long prepare_memory_of(engine_thread which) {
  char* const stack = at_load->stacks[static_cast<unsigned>(which)];
  const auto address = reinterpret_cast<long>(stack);
  const std::size_t bytes = stack_part(at_load->data_bytes);
  const auto length = static_cast<long>(bytes);
  const long failure = system_call(SYS_mprotect, address, length, PROT_READ | PROT_WRITE);
  // Locked memory cannot be dropped.
  if (failure == 0 && which == engine_thread::control &&
      system_call(SYS_madvise, address, length, MADV_DONTNEED) != 0) {
    std::memset(stack, 0, bytes);
  }
  return failure;
}

}  // namespace tarn::os
