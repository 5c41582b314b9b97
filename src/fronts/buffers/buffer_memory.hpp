// SPDX-License-Identifier: MIT
// buffer_memory: operations on the memory of a buffer's span: prefaulting, huge pages, locking, zeroing, wiping.
//
// Every function may call the system: never under a lock. Thread safety: any thread, for a span that only the caller
// uses.
#pragma once

#include <cstddef>

#include "pages/span.hpp"

namespace tarn::buffer_memory {

#pragma GCC visibility push(hidden)

// Faults in the whole span, by one system call per slice; page by page where the system has no such call. Its content
// stays.
void prefault(const span* s);

// Asks the system for huge pages in the part of the span that consists of whole huge pages.
void advise_huge(const span* s);

// Locks the span in memory and keeps it out of core dumps. False: the system refuses.
bool lock(const span* s, bool wiped_on_fork);
// Undoes lock(). Requires: wipe() has removed the secrets.
void unlock(const span* s, bool wiped_on_fork);

// Zeroes the bytes; the compiler cannot remove the writes although no code reads them.
void wipe(void* memory, std::size_t bytes);

struct zeroed_bytes {
  std::size_t by_memset = 0;
  std::size_t by_system = 0;
};
// Zero a span that the page heap has just handed out (zero_new), or one whose bytes have been used (zero_used), by the
// cheaper of writing zeroes and of purging the pages, which the system then supplies zeroed. Return the bytes zeroed
// each way. `may_drop`: the pages may be purged, as they are not locked; `huge`: they would be faulted in as huge
// pages.
zeroed_bytes zero_new(span* s, bool may_drop, bool huge);
zeroed_bytes zero_used(span* s, bool may_drop, bool huge);

// The costs that decide it, in ns for 2 MiB.
struct zeroing_prices {
  std::int64_t memset_ns;
  std::int64_t fresh_ns;       // purging and faulting in pages of the system's usual size
  std::int64_t fresh_huge_ns;  // the same with huge pages
};
// Measures at the first call. While another thread measures, returns prices with which nothing is purged.
zeroing_prices measured_prices();

#pragma GCC visibility pop

}  // namespace tarn::buffer_memory
