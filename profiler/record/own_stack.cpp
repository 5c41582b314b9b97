// SPDX-License-Identifier: MIT
#include "profiler/record/own_stack.hpp"

#include <pthread.h>

// Defined by ld.so: an address near the upper end of the main thread's stack, above all frames.
extern "C" [[gnu::weak]] void* __libc_stack_end;  // NOLINT(readability-identifier-naming): its name

namespace tarn::profiler {

namespace {

using unwind::stack_memory;

// A stack pointer that is farther than this below what is known of the thread's own stack is taken for another stack's,
// so that no time is spent on the memory in between.
constexpr std::uintptr_t longest_step = std::uintptr_t{8} << 20;

}  // namespace

void own_stack::begin(bool is_first_thread) noexcept {
  known_ = {};
  auto end = static_cast<std::uintptr_t>(pthread_self());
  if (is_first_thread) {
    if (&__libc_stack_end == nullptr) return;
    end = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  }
  known_ = {page_of(end), page_of(end) + page_bytes};
}

bool own_stack::reaches(std::uintptr_t stack_pointer, stack_memory::question asked) noexcept {
  if (stack_pointer >= known_.low || known_.low - stack_pointer > longest_step) return false;
  return stack_memory::extend_down(known_, stack_pointer, asked);
}

}  // namespace tarn::profiler
