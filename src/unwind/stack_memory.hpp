// SPDX-License-Identifier: MIT
// stack_memory: the words of a stack that a stack walk may read. The bounds of a thread's own stack are known. Of any
// other stack (a coroutine's, a signal handler's, one that code has switched to) only the page on which the walk runs
// is known to be readable; every other page is read only after the kernel has confirmed that it is readable.
//
// Owner: one walk, as a local variable. Thread safety: used by one thread. Takes no lock, allocates nothing, leaves
// errno alone, and may be used in a signal handler.
// Invariant: known_ is readable. A page that another thread unmaps between the kernel's answer and the read still
// faults; a correct program does not unmap the stack on which the calling thread runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::unwind {

struct stack_bounds {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  [[nodiscard]] bool contain(std::uintptr_t address) const { return address >= low && address < high; }
};

class stack_memory {
 public:
  // The system call that tells whether a page is readable.
  enum class question : std::uint8_t {
    none,         // never ask: the stack is known
    sigprocmask,  // any kernel
    madvise,      // under a filter that allows only malloc's calls; kernels before 5.14 always answer no
  };

  // A known stack: everything in `bounds` is readable, and nothing else is read.
  explicit stack_memory(const stack_bounds& bounds) : known_(bounds) {}
  // An unknown stack, from `stack_pointer` on. Cost: a system call for each page read, except the caller's own.
  stack_memory(std::uintptr_t stack_pointer, question asked);

  // Lowers known.low to the page of `address`, as far as the kernel confirms each page on the way. False: one of them
  // cannot be read, so `address` does not lie on the same stack. Cost: a system call for each page.
  static bool extend_down(stack_bounds& known, std::uintptr_t address, question asked);

  // Reads the word at `address`. False: the address is not aligned or not on the stack, or cannot be read.
  bool read(std::uintptr_t address, std::uintptr_t& word) {
    if (address % sizeof word != 0) return false;
    const bool known = known_.contain(address) && known_.high - address >= sizeof word;
    if (!known && !ask_for_page(address)) return false;
    word = *reinterpret_cast<const std::uintptr_t*>(address);
    return true;
  }

 private:
  bool ask_for_page(std::uintptr_t address);

  stack_bounds known_;
  std::uintptr_t lowest_ = 0;
  question asked_ = question::none;
};

}  // namespace tarn::unwind
