// SPDX-License-Identifier: MIT
// free_mark: the first word of a free object says that the object is free. Set when a thread takes the object
// back, cleared when one hands it out, and left alone in between, in whatever magazine or span the object lies;
// so a second free is seen wherever the first one has put it, for the price of a cache line that the program has
// just used, or is about to.
//
// The mark is the object's own address, combined with a secret of the process. A program that does not read free
// objects cannot write it, so it can neither forge a mark nor, by writing to a freed object, make another one. (glibc's
// tcache has a mark that is the same for all objects, and so has to look further where it finds it.)
//
// The hardened build has no marks: a free object is zero, from end to end, and its canary tells whether it is live
// (malloc/hardened_block.hpp).
//
// Thread safety: all functions but choose_secret() may be called by any thread.
// Invariant: the secret is chosen before the first object exists, and never changes; a forked child keeps it.
#pragma once

#include <cstdint>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "base/units.hpp"

namespace tarn::free_mark {

using word __attribute__((may_alias)) = std::uintptr_t;

#pragma GCC visibility push(hidden)

// A page of its own: read-only once the secret is chosen.
struct alignas(largest_system_page) secret_page {
  std::uintptr_t value;
};
extern constinit secret_page secret;

#pragma GCC visibility pop

// Once, before the first object exists.
void choose_secret();
// From now on the secret can be read only. Enters the kernel.
void protect_secret();

TARN_ALWAYS_INLINE std::uintptr_t of(const void* object) {
  return hardened_build ? 0 : address_of(object) ^ secret.value;
}

TARN_ALWAYS_INLINE bool is_set(const void* object) {
  return !hardened_build && __atomic_load_n(static_cast<const word*>(object), __ATOMIC_RELAXED) == of(object);
}
TARN_ALWAYS_INLINE void set(void* object) {
  if constexpr (!hardened_build) __atomic_store_n(static_cast<word*>(object), of(object), __ATOMIC_RELAXED);
}
TARN_ALWAYS_INLINE void clear(void* object) {
  if constexpr (!hardened_build)
    __atomic_store_n(static_cast<word*>(object), std::uintptr_t{0}, __ATOMIC_RELAXED);
}

}  // namespace tarn::free_mark
