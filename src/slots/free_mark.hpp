// SPDX-License-Identifier: MIT
// free_mark: says of a free object that it is free. free() sets the mark, malloc() clears it; in between it stays, whatever
// magazine or span holds the object. So a second free() is detected wherever the object is.
//
// The mark of an object of up to size_classes::fine_end bytes is its first word: the cost is one access to a cache line that
// the program has just used or is about to use. Of a larger one it is a byte in the page map (page_map::mark()), so that
// neither malloc() nor free() touches the object: the heads of many large objects compete for the same lines of the cache,
// and a page that the program does not use is never touched.
//
// The mark in an object is the object's own address XOR a secret of the process. A program that does not read free objects cannot
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
#include "pages/page_map.hpp"
#include "slots/size_class.hpp"

namespace tarn {

namespace free_mark {

using word __attribute__((may_alias)) = std::uintptr_t;
using half_word __attribute__((may_alias)) = std::uint32_t;

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

// ---- the mark in an object ----

TARN_ALWAYS_INLINE bool is_set(const void* object) {
  if constexpr (hardened_build) return false;
  const std::uintptr_t mark = of(object);
  // Half of it first: a processor cannot forward what the program has just written to a longer load, which waits until the
  // write is in the cache; numbers of four bytes are common.
  if (TARN_LIKELY(TARN_PLAIN_LOAD(*static_cast<const half_word*>(object)) != static_cast<half_word>(mark)))
    return false;
  return TARN_PLAIN_LOAD(*static_cast<const word*>(object)) == mark;
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

// ---- objects of malloc's classes ----

// Whether the marks of the class's objects lie in the page map. The class of the object's page decides, not that of the
// magazine that holds it: a block of grains, which serves every class, has its mark inside.
constexpr bool is_outside(unsigned size_class) { return size_classes::is_coarse(size_class); }
static_assert(page_map::bytes_per_mark == size_classes::fine_end, "no two of these objects share a mark");

// The mark in the page map.
TARN_ALWAYS_INLINE bool is_set(const std::uint8_t& mark) {
  return !hardened_build && TARN_PLAIN_LOAD(mark) != 0;
}
TARN_ALWAYS_INLINE void write(std::uint8_t& mark, bool value) {
  // Atomic only for ThreadSanitizer: GCC 12 would compute the address of such a store apart.
  if constexpr (!hardened_build && TARN_TSAN != 0)
    __atomic_store_n(&mark, std::uint8_t{value}, __ATOMIC_RELAXED);
  if constexpr (!hardened_build && TARN_TSAN == 0) mark = std::uint8_t{value};
}
// Clears the mark of an object that was taken out of a magazine of a class whose objects have it outside. A block of grains
// has none there.
TARN_ALWAYS_INLINE void clear_coarse(const page_map& map, void* object) {
  std::uint8_t& mark = map.mark(address_of(object));
  TARN_LIKELY(is_set(mark)) ? write(mark, false) : clear(object);
}

// Of an object that is in a magazine of the class, or comes from one, or whose page is of the class.
inline bool is_set(const page_map& map, unsigned size_class, const void* object) {
  if (!is_outside(size_class) ||
      size_classes::is_grain(static_cast<unsigned>(map.class_of(address_of(object)))))
    return is_set(object);
  return is_set(map.mark(address_of(object)));
}
inline void clear(const page_map& map, unsigned size_class, void* object) {
  is_outside(size_class) ? clear_coarse(map, object) : clear(object);
}
// Of an object whose page is of the class, or of none.
inline void set(const page_map& map, unsigned size_class, void* object) {
  is_outside(size_class) ? write(map.mark(address_of(object)), true) : set(object);
}

// ---- the marks of a span cut into objects: under the lock of its depot, or while only the caller has it ----
//
// A span is listed or unlisted. All free objects of a listed one have their mark, but those from first_unused on, which
// have never been used. Pages of an unlisted one, and with them marks, have been dropped: its pages lead to it in the page
// map but have no class, so free() takes the way of blocks that it does not know, where the span's bits tell
// (idle_pages.hpp). A span is unlisted exactly if its free_when_looked is not 0.

// free_when_looked of a span whose free objects are held at this moment: more than any span has.
inline constexpr std::uint16_t held_now = 0xffff;

// Marks the objects before `end` that have never been used, unless their marks lie outside: mark_all() has set those.
void mark_unused(span* s, std::size_t end);
// Of a span of a class whose marks lie outside: sets them.
void mark_all(const page_map& map, const span* s);
// Of a span that is divided into grains: clears those that its memory has outside from a class before.
void clear_outside(const page_map& map, const span* s);
void unlist(page_map& map, span* s);
// Unless its free objects are held: what is free in it then was freed meanwhile, and has its mark.
void list_again(page_map& map, span* s);
// For checks: whether all objects that were never used are free, which is not asked of a held span; whether all other free
// objects have their mark; and whether the span's pages have its class.
bool unused_are_free(const span& s);
bool all_are_set(const page_map& map, const span& s);
bool is_listed(const page_map& map, const span& s);

}  // namespace free_mark

}  // namespace tarn
