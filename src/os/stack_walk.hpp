// SPDX-License-Identifier: MIT
// stack_walk: the return addresses of the calls that a thread is in, by .eh_frame (frame_rule).
//
// Thread safety: all functions may be called by any thread and in a signal handler; they take no lock and allocate
// nothing. They read within the bounds that they are given only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "os/frame_rule.hpp"

namespace tarn::unwind {

// A point of execution: what a walk begins with.
struct frame_origin {
  std::uintptr_t return_address;
  std::uintptr_t stack_pointer;  // after the return
  std::uintptr_t frame_pointer;  // the caller's
};

struct stack_bounds {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  [[nodiscard]] bool contain(std::uintptr_t address) const { return address >= low && address < high; }
};

// The caller's registers, and where two of them were read.
struct frame_step {
  std::uintptr_t pc = 0;
  std::uintptr_t stack_pointer = 0;
  std::uintptr_t frame_pointer = 0;
  std::uintptr_t pc_slot = 0;
  std::uintptr_t frame_pointer_slot = 0;
  bool by_frame_pointer = false;
};

inline std::uintptr_t read_word(std::uintptr_t address) {
  return *reinterpret_cast<const std::uintptr_t*>(address);
}

// A return address as the program counter uses it: aarch64 may have signed it.
inline std::uintptr_t plain_address(std::uintptr_t address) {
#if defined(__aarch64__)
  return address & ((std::uintptr_t{1} << 48) - 1);
#else
  return address;
#endif
}

// To the caller; false at the end. Reads within bounds only, and always moves outwards.
bool step(const frame_rule& rule, std::uintptr_t stack_pointer, std::uintptr_t frame_pointer,
          const stack_bounds& bounds, frame_step& out);

// The registers of the function that it is inlined into.
TARN_ALWAYS_INLINE frame_origin here() {
  frame_origin out{};
#if defined(__x86_64__)
  asm volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
               : "=&r"(out.return_address), "=&r"(out.stack_pointer), "=&r"(out.frame_pointer));
#else
  asm volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
               : "=&r"(out.return_address), "=&r"(out.stack_pointer), "=&r"(out.frame_pointer));
#endif
  out.return_address += 1;  // as behind a call, since walks look at the byte before
  return out;
}

// Where the stack that the calling thread runs on can be read, from `stack_pointer` on: up to the thread's own data,
// which glibc keeps at the end of a thread's stack, or to where the first thread's began. On a stack that the program
// made itself this is too far; the walk then ends where the tables say that the outermost frame is.
stack_bounds bounds_from(std::uintptr_t stack_pointer);

// The call path from `origin` on, innermost first: addresses of instructions, return addresses but for the first.
// Returns how many. Only frames with tables are followed: code compiled at run time and functions without
// .eh_frame end the path, and so does a glibc before 2.35, which cannot be asked for a module without its lock.
std::size_t walk(const frame_origin& origin, const stack_bounds& bounds, std::uintptr_t* out,
                 std::size_t most);

}  // namespace tarn::unwind
