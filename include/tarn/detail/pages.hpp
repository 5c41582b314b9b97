// SPDX-License-Identifier: MIT
// Whole pages from the engine's page heap: the memory of arenas.
//
// Thread safety: any thread. None throws.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>

#include "tarn/malloc.h"

extern "C" {

// At least *bytes bytes, rounded up to whole pages of 8 KiB; sets *bytes to the bytes allocated. Not zeroed. Null when
// there is no memory (errno ENOMEM). Prefers free memory that is still backed.
TARN_API void* tarn_pages_take(std::size_t* bytes) noexcept;
// Requires: from tarn_pages_take. Aborts on any other pointer.
TARN_API void tarn_pages_give(void* pages) noexcept;

}  // extern "C"
