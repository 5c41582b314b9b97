// SPDX-License-Identifier: MIT
// free_mark: the first word of a free object says that the object is free. Set when a thread takes the object
// back, cleared when one hands it out, and left alone in between, in whatever magazine or span the object lies;
// so a second free is seen wherever the first one has put it, for the price of a cache line that the program has
// just used, or is about to.
//
// The mark is the object's own address with some bits turned: a value that no program stores there but one that
// writes what it has read from a free object to the same place. (glibc's tcache has a mark that is the same for all
// objects, and so has to look further where it finds it.)
#pragma once

#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"

namespace tarn::free_mark {

using word __attribute__((may_alias)) = std::uintptr_t;

// No address has its upper half turned like this.
TARN_ALWAYS_INLINE std::uintptr_t of(const void* object) {
  return address_of(object) ^ std::uintptr_t{0xa6c3'5d91'0f6e'9b37};
}

TARN_ALWAYS_INLINE bool is_set(const void* object) {
  return __atomic_load_n(static_cast<const word*>(object), __ATOMIC_RELAXED) == of(object);
}
TARN_ALWAYS_INLINE void set(void* object) {
  __atomic_store_n(static_cast<word*>(object), of(object), __ATOMIC_RELAXED);
}
TARN_ALWAYS_INLINE void clear(void* object) {
  __atomic_store_n(static_cast<word*>(object), std::uintptr_t{0}, __ATOMIC_RELAXED);
}

}  // namespace tarn::free_mark
