// SPDX-License-Identifier: MIT
// Memory by the page, from the engine's page heap: what arenas are made of.
//
// Thread safety: any thread. None throws.
#pragma once

#include <cstddef>

#include "tarn/malloc.h"

extern "C" {

// At least *bytes bytes, rounded up to whole pages of 8 KiB; *bytes becomes what it got. Not zeroed. Null when there is
// no memory (errno ENOMEM). Warm memory that others have freed comes first.
TARN_API void* tarn_pages_take(std::size_t* bytes) noexcept;
// Requires: from tarn_pages_take. Aborts on any other pointer.
TARN_API void tarn_pages_give(void* pages) noexcept;

}  // extern "C"
