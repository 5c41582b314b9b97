// SPDX-License-Identifier: MIT
// apply_pools: the pools and buffer pools that serve a plan's groups, and the recognition of their blocks when they
// are freed. Thread safety: any thread, after open().
#pragma once

#include <cstddef>

#include "profiler/apply/apply_sites.hpp"

namespace tarn::profiler::apply_pools {

// Makes the pools. Groups whose pool cannot be made are served by malloc.
void open(const apply_sites& sites) noexcept;

// A block of `bytes` from the group's pool; null: take it from malloc.
void* take(std::size_t number, std::size_t bytes) noexcept;

// Frees the block if it is a pool's; false: it is malloc's.
bool give(void* block) noexcept;

// Usable bytes of the block if it is a pool's; otherwise 0.
std::size_t capacity_of(const void* block) noexcept;

// Blocks that the group has handed out, as far as its pool counts them.
unsigned long taken(std::size_t number) noexcept;

}  // namespace tarn::profiler::apply_pools
