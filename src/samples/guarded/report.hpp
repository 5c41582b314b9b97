// SPDX-License-Identifier: MIT
// guarded_report: the report on the misuse of a guarded block: the access or call, the block, and the call paths of the
// allocation, of free(), and of the misuse. The first line begins like that of every other error (os::fatal).
//
// Thread safety: any thread, also in a signal handler on a small stack: takes no lock, allocates nothing; the text is
// composed in static memory. If several threads report at once, one writes, and the others wait until its report or the
// process has ended.
#pragma once

#include <cstdint>

#include "samples/guarded/guarded_slot.hpp"
#include "unwind/stack_walk.hpp"

namespace tarn::guarded_report {

enum class access : std::uint8_t { unknown, read, write };

// An access that has faulted. origin.return_address is the address of the instruction plus one (see unwind::here()).
struct fault {
  std::uintptr_t address;
  access kind;
  unwind::frame_origin origin;
};

// Writes the report and returns.
void write_fault(const guarded_slot& slot, const fault& what);

// Found when the block was freed: the program has written to `at`, on the block's pages but outside the block.
[[noreturn]] void end_with_damage(const guarded_slot& slot, std::uintptr_t at);
// The calling thread has freed `block`, where no live block begins; `slot` is the slot that it points into.
[[noreturn]] void end_with_bad_free(const guarded_slot& slot, const void* block);

}  // namespace tarn::guarded_report
