// SPDX-License-Identifier: MIT
// frame_step: from a frame to its caller's, by the rule of its function (frame_rule).
// Thread safety: any thread, and in a signal handler: no lock, no allocation. Only the stack_memory given is read.
#pragma once

#include <cstdint>

#include "os/frame_rule.hpp"
#include "os/stack_memory.hpp"

namespace tarn::unwind {

// A point of execution: what a walk begins with.
struct frame_origin {
  std::uintptr_t return_address;
  std::uintptr_t stack_pointer;  // after the return
  std::uintptr_t frame_pointer;  // the caller's
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

// A return address as the program counter uses it: aarch64 may have signed it.
inline std::uintptr_t plain_address(std::uintptr_t address) {
#if defined(__aarch64__)
  return address & ((std::uintptr_t{1} << 48) - 1);
#else
  return address;
#endif
}

// To the caller; false at the end, and where the stack cannot be read. It always moves outwards.
bool step(const frame_rule& rule, std::uintptr_t stack_pointer, std::uintptr_t frame_pointer,
          stack_memory& stack, frame_step& out);

}  // namespace tarn::unwind
