// SPDX-License-Identifier: MIT
// moving: moves blocks out of sparse spans, for programs that can change their pointers (tarn/malloc.h).
//
// Thread safety: any thread, for blocks that it owns.
#pragma once

namespace tarn::moving {

// As tarn_would_move().
bool would_help(const void* block, double ratio);
// As tarn_move().
void* move(void* block);

}  // namespace tarn::moving
