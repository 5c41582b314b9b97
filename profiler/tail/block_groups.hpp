// SPDX-License-Identifier: MIT
// block_groups: the group of sizes to which each live block belongs, so that free can be counted by size. malloc_usable_size is not
// asked, as it would bring the block's own lines into the cache just before the timed call.
//
// A byte for each 16 bytes of memory, in tables that are made where a block above the first group lies: the first group is 0,
// and needs none. Any thread; a block's byte is written by the thread that owns the block.
#pragma once

#include <cstdint>

namespace tarn::profiler::tail {

// `block` may be null, and then is no block.
void note_group(const void* block, std::uint8_t group);
// Before the block goes back.
std::uint8_t take_group(const void* block);

}  // namespace tarn::profiler::tail
