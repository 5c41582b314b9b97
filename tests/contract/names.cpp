// SPDX-License-Identifier: MIT
// The functions under test: the tarn_ names with CONTRACT_OF_TARN, else the names of libc and C++. With
// CONTRACT_PRELOADED the program is linked with no allocator, so names that only some allocators have may be missing.
#include <malloc.h>

#include <new>

#include "../../include/tarn/malloc.h"
#include "contract.hpp"

#ifdef CONTRACT_OF_TARN
#define NAME(function) tarn_##function
#define tarn_malloc_usable_size tarn_usable_size
#else
#define NAME(function) ::function
#endif

// libc's headers do not declare the first three.
extern "C" {
#ifdef CONTRACT_PRELOADED
#pragma weak cfree
#pragma weak free_sized
#pragma weak free_aligned_sized
#pragma weak tarn_get_stats
#endif
void cfree(void*) noexcept;
void free_sized(void*, size_t) noexcept;
void free_aligned_sized(void*, size_t, size_t) noexcept;
}

namespace contract {

#ifdef CONTRACT_PRELOADED
bool is_tarn() { return &tarn_get_stats != nullptr; }
#else
bool is_tarn() { return true; }
#endif

size_t large_bytes() {
  if (!is_tarn()) return 0;
  tarn_stats stats;
  tarn_get_stats(&stats);
  return stats.large;
}

namespace {

void* give_by_posix_memalign(size_t alignment, size_t size) {
  char marker = 0;
  void* out = &marker;
  const int error = NAME(posix_memalign)(&out, alignment, size);
  if (error == 0) return out;
  TARN_CHECK(out == &marker, "posix_memalign(%zu, %zu) fails, but overwrites the pointer", alignment, size);
  TARN_CHECK(error == ENOMEM, "posix_memalign(%zu, %zu) returns %d, not ENOMEM", alignment, size, error);
  return nullptr;
}

#define GIVE(call) [](size_t, size_t n) -> void* { return call; }
#define GIVE_ALIGNED(call) [](size_t alignment, size_t n) -> void* { return call; }
#define WIDE static_cast<std::align_val_t>(alignment)

using enum placement;
using enum failure;

constexpr giver givers[] = {
    {"malloc", natural, null_and_enomem, GIVE(NAME(malloc)(n))},
    {"calloc(1, n)", natural, null_and_enomem, GIVE(NAME(calloc)(1, n))},
    {"calloc(n, 1)", natural, null_and_enomem, GIVE(NAME(calloc)(n, 1))},
    {"realloc", natural, null_and_enomem, GIVE(NAME(realloc)(nullptr, n))},
    {"reallocarray(1, n)", natural, null_and_enomem, GIVE(NAME(reallocarray)(nullptr, 1, n))},
    {"reallocarray(n, 1)", natural, null_and_enomem, GIVE(NAME(reallocarray)(nullptr, n, 1))},
    {"valloc", page, null_and_enomem, GIVE(NAME(valloc)(n))},
    {"pvalloc", whole_pages, null_and_enomem, GIVE(NAME(pvalloc)(n))},
    {"posix_memalign", as_asked, null_and_enomem, give_by_posix_memalign},
    {"aligned_alloc", as_asked, null_and_enomem, GIVE_ALIGNED(NAME(aligned_alloc)(alignment, n))},
    {"memalign", as_asked, null_and_enomem, GIVE_ALIGNED(NAME(memalign)(alignment, n))},
#ifndef CONTRACT_OF_TARN
    {"new", natural, bad_alloc, GIVE(::operator new(n))},
    {"new[]", natural, bad_alloc, GIVE(::operator new[](n))},
    {"new, nothrow", natural, null, GIVE(::operator new(n, std::nothrow))},
    {"new[], nothrow", natural, null, GIVE(::operator new[](n, std::nothrow))},
    {"new, aligned", as_asked, bad_alloc, GIVE_ALIGNED(::operator new(n, WIDE))},
    {"new[], aligned", as_asked, bad_alloc, GIVE_ALIGNED(::operator new[](n, WIDE))},
    {"new, aligned, nothrow", as_asked, null, GIVE_ALIGNED(::operator new(n, WIDE, std::nothrow))},
    {"new[], aligned, nothrow", as_asked, null, GIVE_ALIGNED(::operator new[](n, WIDE, std::nothrow))},
#endif
};

#define TAKE(call) [](void* p, size_t) { call; }
#define TAKE_SIZED(call) [](void* p, size_t n) { call; }
#define TAKE_BY_RESIZING(call) \
  [](void* p, size_t) { TARN_CHECK((call) == nullptr, #call " does not give null"); }
#undef WIDE
#define WIDE static_cast<std::align_val_t>(taken_alignment)

constexpr taker takers[] = {
    {"free", true, TAKE(NAME(free)(p))},
    {"realloc to 0", false, TAKE_BY_RESIZING(NAME(realloc)(p, hide(size_t{0})))},
    {"reallocarray to 0", false, TAKE_BY_RESIZING(NAME(reallocarray)(p, 3, hide(size_t{0})))},
#ifdef CONTRACT_OF_TARN
    {"free_sized", true, TAKE_SIZED(tarn_free_sized(p, n)), named::size},
    {"free_aligned_sized", true, TAKE_SIZED(tarn_free_aligned_sized(p, taken_alignment, n)),
     named::size_and_alignment},
#else
    {"cfree", true, TAKE(&cfree != nullptr ? cfree(p) : ::free(p))},
    {"free_sized", true, TAKE_SIZED(&free_sized != nullptr ? free_sized(p, n) : ::free(p)), named::size},
    {"free_aligned_sized", true,
     TAKE_SIZED(&free_aligned_sized != nullptr ? free_aligned_sized(p, taken_alignment, n) : ::free(p)),
     named::size_and_alignment},
    {"delete", true, TAKE(::operator delete(p))},
    {"delete[]", true, TAKE(::operator delete[](p))},
    {"delete, sized", true, TAKE_SIZED(::operator delete(p, n)), named::size},
    {"delete[], sized", true, TAKE_SIZED(::operator delete[](p, n)), named::size},
    {"delete, nothrow", true, TAKE(::operator delete(p, std::nothrow))},
    {"delete[], nothrow", true, TAKE(::operator delete[](p, std::nothrow))},
    {"delete, aligned", true, TAKE(::operator delete(p, WIDE))},
    {"delete[], aligned", true, TAKE(::operator delete[](p, WIDE))},
    {"delete, sized, aligned", true, TAKE_SIZED(::operator delete(p, n, WIDE)), named::size_and_alignment},
    {"delete[], sized, aligned", true, TAKE_SIZED(::operator delete[](p, n, WIDE)),
     named::size_and_alignment},
    {"delete, aligned, nothrow", true, TAKE(::operator delete(p, WIDE, std::nothrow))},
    {"delete[], aligned, nothrow", true, TAKE(::operator delete[](p, WIDE, std::nothrow))},
#endif
};

}  // namespace

const functions under_test = {
    .malloc = NAME(malloc),
    .calloc = NAME(calloc),
    .realloc = NAME(realloc),
    .reallocarray = NAME(reallocarray),
    .posix_memalign = NAME(posix_memalign),
    .aligned_alloc = NAME(aligned_alloc),
    .memalign = NAME(memalign),
    .free = NAME(free),
    .usable_size = [](void* block) { return NAME(malloc_usable_size)(block); },
    .givers = givers,
    .takers = takers,
#ifdef CONTRACT_OF_TARN
    .libc_names = false,
#else
    .libc_names = true,
#endif
};

}  // namespace contract
