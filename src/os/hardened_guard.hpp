// SPDX-License-Identifier: MIT
// hardened_guard: ranges of memory in use that are to fault on every access for a while.
//
// From Linux 6.13 on by markers in the page tables (MADV_GUARD_INSTALL), which take no mapping each; else by mprotect.
// Thread safety: both functions may be called by any thread, for ranges that are theirs. They enter the kernel: never
// under a lock.
#pragma once

#include <cstddef>

namespace tarn::os {

// Whole system pages of memory that was readable and writable. What they held is lost. False: nothing has changed but
// that.
// By markers, which take no mapping. False before Linux 6.13, and in locked memory.
bool mark_guard(void* address, std::size_t bytes);
// By protection, which may split a mapping into three: the system bounds their number.
bool protect_guard(void* address, std::size_t bytes);

// Readable and writable again, and zero. False: the range, or a part of it, must never be used again.
bool remove_guard(void* address, std::size_t bytes);

}  // namespace tarn::os
