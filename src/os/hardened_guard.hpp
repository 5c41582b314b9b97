// SPDX-License-Identifier: MIT
// hardened_guard: makes parts of memory in use inaccessible for a while.
//
// Two kinds: markers in the page tables (MADV_GUARD_INSTALL, Linux 6.13), which need no mapping of their own, and
// mprotect.
// Thread safety: all functions may be called by any thread, for ranges that only it uses. They make system calls: never
// call one under a lock.
#pragma once

#include <cstddef>

namespace tarn::os {

// Both functions: the range is whole system pages of readable and writable memory. Its content may be lost even if the
// result is false (no guard).
// By markers, which need no mapping. False: before Linux 6.13, or the memory is locked.
bool mark_guard(void* address, std::size_t bytes);
// By mprotect, which may split a mapping into three; the system limits their number. Undoes the program's mlock.
bool protect_guard(void* address, std::size_t bytes);

// Makes the range readable, writable and zero again. False: some of it stays inaccessible; it must never be used again.
bool remove_guard(void* address, std::size_t bytes);

}  // namespace tarn::os
