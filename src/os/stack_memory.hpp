// SPDX-License-Identifier: MIT
// stack_memory: the words of a stack that a walk may read. Of a thread's own stack the extent is known. Of any other one,
// as of a coroutine, a signal handler or code that has switched stacks by itself, nothing is known but the page that the
// walk runs on: each further page is read only after the kernel has said that it can be read.
//
// Owner: one walk, on its stack. Thread safety: of one thread. It takes no lock, allocates nothing, leaves errno alone and
// may be used in a signal handler.
// Invariant: known_ can be read. A page that another thread unmaps between the kernel's answer and the read still
// faults; pages of the stack that the calling thread runs on are not unmapped by a correct program.
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
  // The system call that asks whether a page can be read.
  enum class question : std::uint8_t {
    none,         // for a known stack
    sigprocmask,  // any kernel
    madvise,      // under a filter that allows only what malloc needs; kernels before 5.14 always say no
  };

  // A known stack: all of `bounds` can be read, and nothing else is.
  explicit stack_memory(const stack_bounds& bounds) : known_(bounds) {}
  // An unknown stack, from `stack_pointer` on. Cost: a system call for each page that is read, but for the caller's own.
  stack_memory(std::uintptr_t stack_pointer, question asked);

  // False: the address is not one of a word of the stack, or it cannot be read.
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
