// SPDX-License-Identifier: MIT
#include "profiler/record/own_stack.hpp"

#include <pthread.h>

// Defined by ld.so: an address near the upper end of the main thread's stack, above all frames.
extern "C" [[gnu::weak]] void* __libc_stack_end;  // NOLINT(readability-identifier-naming): its name

namespace tarn::profiler {

namespace {

using unwind::stack_memory;

constexpr std::uintptr_t page_bytes = 4096;  // the least of any system
// A stack pointer that is farther than this below what is known of the thread's own stack is taken for another stack's,
// so that no time is spent on the memory in between.
constexpr std::uintptr_t longest_step = std::uintptr_t{8} << 20;

std::uintptr_t page_of(std::uintptr_t address) { return address & ~(page_bytes - 1); }

bool reaches(unwind::stack_bounds& known, std::uintptr_t stack_pointer, stack_memory::question asked) {
  if (known.contain(stack_pointer)) return true;
  if (stack_pointer >= known.low || known.low - stack_pointer > longest_step) return false;
  return stack_memory::extend_down(known, stack_pointer, asked);
}

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

stack_memory own_stack::memory_from(std::uintptr_t stack_pointer, stack_memory::question asked) noexcept {
  if (!reaches(known_, stack_pointer, asked)) return stack_memory(stack_pointer, asked);
  // Not what lies below: a runtime may have protected those pages since.
  return stack_memory(unwind::stack_bounds{page_of(stack_pointer), known_.high});
}

}  // namespace tarn::profiler
