// SPDX-License-Identifier: MIT
// pinning: the free memory that live blocks keep from going back, by size class, and the part of one block in it
// (tarn/malloc.h, docs/design/0035).
//
// Thread safety: any thread, without locks.
#pragma once

#include <cstddef>

#include "tarn/malloc.h"

namespace tarn::pinning {

// As tarn_visit_pinned(). Allocates nothing, so visit() may be called by any thread, also one that is not libc's.
void visit(void (*visit)(void* context, const tarn_pinned* pinned), void* context);
// As tarn_pinned_by().
std::size_t bytes_by(const void* block);

}  // namespace tarn::pinning
