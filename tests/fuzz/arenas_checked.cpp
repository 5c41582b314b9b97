// SPDX-License-Identifier: MIT
// arenas.cpp once more, with checked pools.
#undef TARN_CHECKED_POOLS
#define TARN_CHECKED_POOLS 1
#define TARN_FUZZ_MAKE_ARENAS make_checked_arenas
#include "arenas.cpp"
