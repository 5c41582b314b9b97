// SPDX-License-Identifier: MIT
// thread_stack: where the stack of a recording thread lies, and which memory of its current stack may be read. libc is
// not asked: pthread_getattr_np takes a lock of the thread, and allocates under it, so its own first malloc is told to
// the recorder while the thread holds that lock.
// Thread safety: each thread asks for itself.
#include <pthread.h>

#include "profiler/record/own_calls.hpp"
#include "profiler/record/recorder_state.hpp"

// Defined by ld.so: an address near the upper end of the main thread's stack, above all frames.
extern "C" [[gnu::weak]] void* __libc_stack_end;  // NOLINT(readability-identifier-naming): its name

namespace tarn::profiler::recorder {

namespace {

constexpr std::uintptr_t page_bytes = 4096;  // the least of any system
// A stack pointer that is farther than this below what is known of the thread's own stack is taken for another stack's,
// so that no time is spent on the memory in between.
constexpr std::uintptr_t longest_step = std::uintptr_t{8} << 20;

std::uintptr_t page_of(std::uintptr_t address) { return address & ~(page_bytes - 1); }

// As in the engine's walk: a filter that allows malloc allows madvise.
stack_memory::question way_to_ask() {
  return in_sandbox() ? stack_memory::question::madvise : stack_memory::question::sigprocmask;
}

bool is_on_own_stack(thread_state& thread, std::uintptr_t stack_pointer) {
  stack_bounds& known = thread.own_stack;
  if (known.contain(stack_pointer)) return true;
  if (stack_pointer >= known.low || known.low - stack_pointer > longest_step) return false;
  return stack_memory::extend_down(known, stack_pointer, way_to_ask());
}

}  // namespace

// libc puts the descriptor of a thread at the upper end of its stack, above all frames, also of a stack that the program
// provides. Below it, the stack is what can be read without a gap.
void find_own_stack(thread_state& state) {
  state.own_stack = {};
  auto end = static_cast<std::uintptr_t>(pthread_self());
  if (state.id == process->file.page->pid) {
    if (&__libc_stack_end == nullptr) return;
    end = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  }
  state.own_stack = {page_of(end), page_of(end) + page_bytes};
}

stack_memory stack_of(thread_state& thread, std::uintptr_t stack_pointer) {
  if (!is_on_own_stack(thread, stack_pointer)) return stack_memory(stack_pointer, way_to_ask());
  // Not what lies below: a runtime may have protected those pages since.
  return stack_memory(stack_bounds{page_of(stack_pointer), thread.own_stack.high});
}

}  // namespace tarn::profiler::recorder
