// SPDX-License-Identifier: MIT
// kept_bytes: how many bytes more a block takes in the hardened build than in the fast one, from the engine's
// constants: a canary at the end of each object of a size class, a guard after each larger block. The tests'
// registration sets GUARANTEE_HARDENED=1 where the library is the hardened build.
// Thread safety: all functions may be called by any thread.
#pragma once

#include "base/hardened.hpp"
#include "check.hpp"
#include "slots/size_class.hpp"

namespace guarantee {

// Not a static variable of a function: its guard would pull in libstdc++, which allocates before main.
inline const bool library_is_hardened = getenv("GUARANTEE_HARDENED") != nullptr;

inline size_t guard_bytes() {
  if (!library_is_hardened) return 0;
  return tarn::guard_pages_for(static_cast<size_t>(sysconf(_SC_PAGESIZE))) << tarn::page_shift;
}

// How many bytes of the heap a block of `size` bytes takes.
inline size_t taken_by(size_t size, bool hardened) {
  const size_t object = size + (hardened ? tarn::canary_bytes : 0);
  if (object <= tarn::largest_class_size) return tarn::class_info(tarn::class_of_size(object)).size;
  return (tarn::pages_for(size) << tarn::page_shift) + (hardened ? guard_bytes() : 0);
}

// `size`, scaled by how much more the hardened build takes for the block. In the fast build: `size`.
inline size_t size_with_kept_bytes(size_t size) {
  if (!library_is_hardened) return size;
  return size * taken_by(size, true) / taken_by(size, false);
}

}  // namespace guarantee
