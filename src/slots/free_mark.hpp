// SPDX-License-Identifier: MIT
// free_mark: the first word of a free object says that the object is free. free() sets the mark, malloc() clears it; in
// between it stays, whatever magazine or span holds the object. So a second free() is detected wherever the object is.
// The cost is one access to a cache line that the program has just used or is about to use.
//
// The mark is the object's own address XOR a secret of the process. A program that does not read free objects cannot
// compute it, so it can neither forge a mark nor create one by writing to a freed object. (glibc's tcache uses the same
// mark for all objects, so it must search further when it finds one.)
//
// The hardened build has no marks: a free object is zero from end to end, and its canary tells whether it is live
// (malloc/hardened_block.hpp).
//
// Thread safety: all functions except choose_secret() may be called by any thread.
// Invariant: the secret is chosen before the first object exists and never changes; a forked child keeps it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "base/units.hpp"

namespace tarn {

class page_map;
struct span;

namespace free_mark {

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
// Makes the secret read-only. Makes a system call.
void protect_secret();

TARN_ALWAYS_INLINE std::uintptr_t of(const void* object) {
  return hardened_build ? 0 : address_of(object) ^ secret.value;
}

TARN_ALWAYS_INLINE bool is_set(const void* object) {
  return !hardened_build && TARN_PLAIN_LOAD(*static_cast<const word*>(object)) == of(object);
}
TARN_ALWAYS_INLINE void set(void* object) {
  if constexpr (!hardened_build) __atomic_store_n(static_cast<word*>(object), of(object), __ATOMIC_RELAXED);
}
TARN_ALWAYS_INLINE void clear(void* object) {
  if constexpr (!hardened_build)
    __atomic_store_n(static_cast<word*>(object), std::uintptr_t{0}, __ATOMIC_RELAXED);
}

// For an object into which the engine has copied another: what the program has never written in it may be the mark of an
// object that was free at this address before.
TARN_ALWAYS_INLINE void clear_copied(void* object) {
  if (TARN_UNLIKELY(is_set(object))) clear(object);
}

// ---- the marks of a span cut into objects: under the lock of its depot, or while only the caller has it ----
//
// A span is listed or unlisted. All free objects of a listed one have their mark, but those from first_unused on, which
// have never been used. Pages of an unlisted one, and with them marks, have been dropped: its pages lead to it in the page
// map but have no class, so free() takes the way of blocks that it does not know, where the span's bits tell
// (idle_pages.hpp). A span is unlisted exactly if its free_when_looked is not 0.

// free_when_looked of a span whose free objects are held at this moment: more than any span has.
inline constexpr std::uint16_t held_now = 0xffff;

// Marks the objects before `end` that have never been used.
void mark_unused(span* s, std::size_t end);
void unlist(page_map& map, span* s);
// Unless its free objects are held: what is free in it then was freed meanwhile, and has its mark.
void list_again(page_map& map, span* s);
// For checks: whether all objects that were never used are free, which is not asked of a held span; whether all other free
// objects have their mark; and whether the span's pages have its class.
bool unused_are_free(const span& s);
bool all_are_set(const span& s);
bool is_listed(const page_map& map, const span& s);

}  // namespace free_mark

}  // namespace tarn
