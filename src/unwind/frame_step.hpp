// SPDX-License-Identifier: MIT
// frame_step: one step of a stack walk: from a frame to its caller's, by the rule for the frame's program counter
// (frame_rule).
// Thread safety: any thread, also in a signal handler: takes no lock, allocates nothing. Reads only through the
// stack_memory given.
#pragma once

#include <cstdint>

#include "base/architecture.hpp"
#include "unwind/frame_rule.hpp"
#include "unwind/stack_memory.hpp"

namespace tarn::unwind {

// The registers with which a walk begins.
struct frame_origin {
  std::uintptr_t return_address;
  std::uintptr_t stack_pointer;  // after the return
  std::uintptr_t frame_pointer;  // the caller's
};

// The caller's registers, and the stack slots from which two of them were read (0: not read from the stack).
struct frame_step {
  std::uintptr_t pc = 0;
  std::uintptr_t stack_pointer = 0;
  std::uintptr_t frame_pointer = 0;
  std::uintptr_t pc_slot = 0;
  std::uintptr_t frame_pointer_slot = 0;
  bool by_frame_pointer = false;
};

// No code lies in the first page.
inline constexpr std::uintptr_t lowest_code = 4096;

// A return address without the signature that the processor may have put into its high bits.
inline std::uintptr_t plain_address(std::uintptr_t address) { return address & arch::code_address_bits; }

// Steps to the caller. False: the walk ends, or the stack cannot be read. The stack pointer always increases.
bool step(const frame_rule& rule, std::uintptr_t stack_pointer, std::uintptr_t frame_pointer,
          stack_memory& stack, frame_step& out);

}  // namespace tarn::unwind
