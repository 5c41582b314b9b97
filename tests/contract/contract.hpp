// SPDX-License-Identifier: MIT
// contract: what a set of allocation functions must do, written once. The checks take the functions from a struct, so
// the same code judges the tarn_ names, the names of libc in a program that is linked with tarn, and the names of libc
// with tarn or another allocator preloaded. names.cpp fills the struct; blocks.cpp, errors.cpp and contents.cpp hold
// the checks; contract.cpp runs them and lists in what other allocators deviate.
// Thread safety: a check is the only one that runs in its process.
#pragma once

#include <span>

#include "../guarantees/check.hpp"

namespace contract {

using namespace guarantee;

// Where a block starts and ends: at the type's natural alignment; at a page; at a page and filling whole pages; at the
// alignment that the caller asks for.
enum class placement { natural, page, whole_pages, as_asked };

enum class failure { null_and_enomem, null, bad_alloc };

// A way to get a block of `size` bytes. `alignment`, a power of two from 8 up, counts for `as_asked` only.
struct giver {
  const char* name;
  placement place;
  failure fails_by;
  void* (*give)(size_t alignment, size_t size);

  size_t alignment_of(size_t alignment, size_t size) const {
    if (place == placement::as_asked) return alignment;
    if (place != placement::natural) return static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size >= 16 ? 16 : 8;
  }
};

enum class named { nothing, size, size_and_alignment };

// A way to give a block back.
struct taker {
  const char* name;
  bool accepts_null;
  void (*take)(void* block, size_t size);
  named names = named::nothing;

  // The hardened build ends a program that gives a block back with a size or an alignment that was not asked for.
  bool may_take_from(placement place) const {
    static const bool checks_sizes = getenv("GUARANTEE_HARDENED") != nullptr;
    if (!checks_sizes || names == named::nothing) return true;
    return place == (names == named::size ? placement::natural : placement::as_asked);
  }
};

inline constexpr size_t taken_alignment = 128;  // what takers are told if they ask for an alignment

struct functions {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*reallocarray)(void*, size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*memalign)(size_t, size_t);
  void (*free)(void*);
  size_t (*usable_size)(void*);
  std::span<const giver> givers;
  std::span<const taker> takers;
  bool libc_names;  // whether libc's and libstdc++'s own calls come here too
};

extern const functions under_test;
inline const functions& f = under_test;

// Bytes in blocks above 256 KiB, from tarn's statistics; 0 if the functions are another allocator's.
size_t large_bytes();
bool is_tarn();

// Fewer sizes and rounds, for a second run of the same code under other names.
inline bool quick = false;

// ---- the checks: each returns if the contract holds, and ends the process otherwise ----

void one_library_provides_all_names();
void every_taker_takes_what_every_giver_gives();
void blocks_are_aligned_and_apart();
void bad_alignments_are_refused();
void impossible_sizes_are_refused();
void new_handler_is_called();
void blocks_of_no_bytes_are_distinct();
void freeing_keeps_errno();
void realloc_keeps_every_byte();
void calloc_gives_zeroes();
void calloc_leaves_zero_pages_untouched();

}  // namespace contract
