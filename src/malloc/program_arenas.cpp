// SPDX-License-Identifier: MIT
#include "malloc/program_arenas.hpp"

namespace tarn {

// Defined by src/jemalloc.
#pragma GCC visibility push(hidden)
extern const program_arena_functions functions_of_program_arenas [[gnu::weak]];
#pragma GCC visibility pop

constinit const program_arena_functions* const program_arenas = &functions_of_program_arenas;

}  // namespace tarn
