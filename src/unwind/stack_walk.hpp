// SPDX-License-Identifier: MIT
// stack_walk: the call path of a thread, by .eh_frame (frame_rule).
//
// Thread safety: all functions may be called by any thread, also in a signal handler; they take no lock and allocate
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/architecture.hpp"
#include "base/compiler.hpp"
#include "unwind/frame_step.hpp"

namespace tarn::unwind {

// The registers of the function into which it is inlined.
TARN_ALWAYS_INLINE frame_origin here() {
  frame_origin out{};
  arch::read_registers(out.return_address, out.stack_pointer, out.frame_pointer);
  out.return_address += 1;  // like a return address: walk() looks up the byte before it
  return out;
}

// Writes the call path from `origin` to `out`, innermost frame first: origin.return_address, then the return addresses
// of its callers. Returns their number. The path is followed on any stack, also on one that the program has made
// itself, and ends where the tables say so or the stack cannot be read. Only frames with tables are followed: code
// compiled at run time and functions without .eh_frame end the path. A glibc before 2.35 cannot find a module without
// its lock: the path then has one frame. Cost: some hundred instructions per frame, and a system call for each page of
// stack except the first.
std::size_t walk(const frame_origin& origin, std::uintptr_t* out, std::size_t most);

}  // namespace tarn::unwind
