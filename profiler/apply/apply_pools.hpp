// SPDX-License-Identifier: MIT
// apply_pools: tarn's pools and buffer pools behind a plan's groups, and whose a block is that comes back.
// Thread safety: any thread, after open().
#pragma once

#include <cstddef>

#include "profiler/apply/apply_sites.hpp"

namespace tarn::profiler::apply_pools {

// Makes the pools. What cannot be made stays with malloc.
void open(const apply_sites& sites) noexcept;

// A block of `bytes` from the group's pool; null: take it from malloc.
void* take(std::size_t number, std::size_t bytes) noexcept;

// Takes the block back if it is a pool's; false: it is malloc's.
bool give(void* block) noexcept;

// What may be written at `block` if it is a pool's, else 0.
std::size_t capacity_of(void* block) noexcept;

// Blocks that the group has handed out, as far as its pool counts them.
unsigned long taken(std::size_t number) noexcept;

}  // namespace tarn::profiler::apply_pools
