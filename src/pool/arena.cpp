// SPDX-License-Identifier: MIT
// What an arena needs of the library beside pages: a way to end the process.
#include "os/report.hpp"
#include "tarn/detail/arena_core.hpp"

void tarn_arena_fatal(const char* what, const void* where) noexcept { tarn::os::fatal(what, where); }
