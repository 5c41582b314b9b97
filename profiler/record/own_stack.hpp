// SPDX-License-Identifier: MIT
// own_stack: the stack of the calling thread, and which memory of the stack that it is on may be read. libc is not asked:
// pthread_getattr_np takes a lock of the thread, and allocates under it, so its own first malloc comes to a hook while the
// thread holds that lock.
//
// Owned by one thread, which alone uses it. Zeroed memory: nothing is known. Takes no lock, allocates nothing, leaves errno
// alone; may be used in a signal handler.
#pragma once

#include "unwind/stack_memory.hpp"

namespace tarn::profiler {

class own_stack {
 public:
  // libc puts the descriptor of a thread at the upper end of its stack, above all frames, also of a stack that the program
  // provides; the first thread's stack ends where ld.so says. Below, the stack is what can be read without a gap.
  void begin(bool is_first_thread) noexcept;
  [[nodiscard]] bool has_begun() const noexcept { return known_.high != 0; }
  // Whether the address lies on the thread's own stack, as far as that is known.
  [[nodiscard]] bool holds(std::uintptr_t address, unwind::stack_memory::question asked) noexcept {
    return known_.contain(address) || reaches(address, asked);
  }
  // Behind the last address; 0: not known.
  [[nodiscard]] std::uintptr_t end() const noexcept { return known_.high; }

  // What may be read from `stack_pointer` on: the thread's own stack, or another one of which each page is asked for.
  // Cost: mostly two comparisons; a system call for each page of the own stack that was not known yet.
  unwind::stack_memory memory_from(std::uintptr_t stack_pointer,
                                   unwind::stack_memory::question asked) noexcept {
    if (!holds(stack_pointer, asked)) return unwind::stack_memory(stack_pointer, asked);
    // Not what lies below: a runtime may have protected those pages since.
    return unwind::stack_memory(unwind::stack_bounds{page_of(stack_pointer), known_.high});
  }

 private:
  static constexpr std::uintptr_t page_bytes = 4096;  // the least of any system
  static std::uintptr_t page_of(std::uintptr_t address) { return address & ~(page_bytes - 1); }
  bool reaches(std::uintptr_t stack_pointer, unwind::stack_memory::question asked) noexcept;

  // The upper part of the stack, as far down as it has been found readable; what lies above the stack pointer stays so.
  unwind::stack_bounds known_;
};

}  // namespace tarn::profiler
