// SPDX-License-Identifier: MIT
// The function of tarn/detail/arena_core.hpp that arenas call in the library, besides those for pages (pages.cpp).
#include "os/report.hpp"
#include "tarn/detail/arena_core.hpp"

void tarn_arena_fatal(const char* what, const void* where) noexcept { tarn::os::fatal(what, where); }
