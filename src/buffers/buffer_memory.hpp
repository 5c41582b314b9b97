// SPDX-License-Identifier: MIT
// buffer_memory: what is done to the memory of a buffer's span: backing, huge pages, locking, zeroing, wiping.
//
// Every function calls the system: never under a lock. Thread safety: the span is the caller's alone.
#pragma once

#include <cstddef>

#include "pages/span.hpp"

namespace tarn::buffer_memory {

#pragma GCC visibility push(hidden)

// Backs the whole span with memory, by slices; page by page where the system cannot do it in one call. Its content stays.
void prefault(const span* s);

// Asks for huge pages for those that lie in the span as a whole.
void advise_huge(const span* s);

// Keeps the span in memory and out of core dumps. False: the system refuses.
bool lock(const span* s, bool wiped_on_fork);
// Undoes it. Requires: wiped.
void unlock(const span* s, bool wiped_on_fork);

// Zeroes, in a way that no compiler leaves out although nobody reads them.
void wipe(void* memory, std::size_t bytes);

struct zeroed_bytes {
  std::size_t by_memset = 0;
  std::size_t by_system = 0;
};
// Zeroes a span that the page heap has just handed out, or one whose bytes have been used: by the cheaper of writing zeroes
// and of dropping the pages, for which the system supplies zeroed ones. `may_drop`: not if they are locked; `huge`: they
// would come back as huge pages.
zeroed_bytes zero_new(span* s, bool may_drop, bool huge);
zeroed_bytes zero_used(span* s, bool may_drop, bool huge);

// What the choice rests on, measured when it is first asked for: ns for 2 MiB.
struct zeroing_prices {
  std::int64_t memset_ns;
  std::int64_t fresh_ns;       // dropping the pages and touching new ones, of the system's usual size
  std::int64_t fresh_huge_ns;  // the same, of huge pages
};
zeroing_prices measured_prices();

#pragma GCC visibility pop

}  // namespace tarn::buffer_memory
