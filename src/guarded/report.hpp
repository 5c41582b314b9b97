// SPDX-License-Identifier: MIT
// guarded_report: what is told of a misuse of a guarded block: the access or the call, the block, and the stacks of all
// that had to do with it. The first line begins as that of every other error (os::fatal).
//
// Thread safety: any thread, and in a signal handler on a small stack: no lock, no allocation; the text is put together
// in memory of its own. Of several threads that report at once, one does, and the others wait until its report is at an end,
// or the process.
#pragma once

#include <cstdint>

#include "guarded/guarded_blocks.hpp"
#include "os/stack_walk.hpp"

namespace tarn::guarded_report {

enum class access : std::uint8_t { unknown, read, write };

// An access that has faulted: `origin.return_address` is that of the instruction.
struct fault {
  std::uintptr_t address;
  access kind;
  unwind::frame_origin origin;
};

// Writes the report and returns.
void write_fault(const guarded_slot& slot, const fault& what);

// The program has written to `at`, on the block's pages but outside of the block: found when it was freed.
[[noreturn]] void end_with_damage(const guarded_slot& slot, std::uintptr_t at);
// The calling thread has freed `block`, which is no live block; the slot is the one that it points into.
[[noreturn]] void end_with_bad_free(const guarded_slot& slot, const void* block);

}  // namespace tarn::guarded_report
