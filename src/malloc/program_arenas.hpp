// SPDX-License-Identifier: MIT
// program_arenas: blocks of arenas that the program has made by mallctl("arenas.create"), as free(), realloc() and
// malloc_usable_size() see them. The functions are those of src/jemalloc; only libtarn-jemalloc.so has them.
//
// Thread safety: the functions may be called by any thread, for blocks that it owns, with no lock held.
#pragma once

#include <cstddef>

namespace tarn {

struct program_arena_functions {
  // Frees the block. False: the pointer is not into memory of such an arena. Ends the process if it is, but is not a
  // live block.
  bool (*deallocate)(void* block);
  // The bytes of the block that may be used; 0: the pointer is not a live block of such an arena.
  std::size_t (*usable_size)(const void* block);
};

#pragma GCC visibility push(hidden)
// Null in the other libraries.
extern const program_arena_functions* const program_arenas;
#pragma GCC visibility pop

}  // namespace tarn
