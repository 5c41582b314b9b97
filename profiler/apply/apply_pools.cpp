// SPDX-License-Identifier: MIT
#include "profiler/apply/apply_pools.hpp"

#include <cstdint>

#include "tarn/detail/pool_bin.hpp"
#include "tarn/pool.h"

namespace tarn::profiler::apply_pools {

namespace {

constexpr std::size_t smallest_buffer = 65536;
constexpr std::size_t buffer_alignment = 8192;

struct group_pools {
  tarn_pool* pool = nullptr;
  tarn_buffer_pool* buffers = nullptr;
  std::size_t size = 0;
};
constinit group_pools groups[most_apply_groups];
constinit std::size_t group_count = 0;
constinit thread_local tarn_pool_bin* bins[most_apply_groups];  // null: the empty one

// The group whose pool a block belongs to, and the block's usable bytes.
struct block_owner {
  std::size_t number = 0;  // group_count: it is malloc's, or a pool's of the program
  std::size_t capacity = 0;
};

block_owner owner_of(const void* block) {
  const tarn_pool* const pool = tarn_pool_of(block);
  const tarn_buffer_pool* buffers = nullptr;
  block_owner owner;
  if (pool == nullptr && reinterpret_cast<std::uintptr_t>(block) % buffer_alignment == 0)
    buffers = tarn_buffer_pool_of(block, &owner.capacity);
  if (pool == nullptr && buffers == nullptr) return {group_count, 0};
  const auto is_owner = [&](const group_pools& group) {
    return pool != nullptr ? group.pool == pool : group.buffers == buffers;
  };
  while (owner.number < group_count && !is_owner(groups[owner.number])) ++owner.number;
  if (owner.number == group_count) return {group_count, 0};
  if (pool != nullptr) owner.capacity = groups[owner.number].size;
  return owner;
}

tarn_pool_bin*& bin_of(std::size_t number) {
  tarn_pool_bin*& bin = bins[number];
  if (bin == nullptr) bin = &detail::no_bin.bin;
  return bin;
}

}  // namespace

void open(const apply_sites& sites) noexcept {
  for (std::size_t number = 0; number < most_apply_groups; ++number) {
    const apply_group& wanted = sites.group(number);
    if (!wanted.used) continue;
    // "apply A", "apply B", …: pools of one name and size would be one pool.
    const char name[] = {'a', 'p', 'p', 'l', 'y', ' ', static_cast<char>('A' + number)};
    group_pools& made = groups[number];
    if (wanted.buffers) {
      tarn_buffer_options request = TARN_BUFFER_OPTIONS;
      request.alignment = buffer_alignment;
      request.name = name;
      request.name_length = sizeof name;
      request.idle_ms = 10000;
      made.buffers = tarn_buffer_pool_create(&request);
    } else {
      made.size = (wanted.size + 15) / 16 * 16;  // malloc's alignment
      tarn_pool_options request = TARN_POOL_OPTIONS;
      request.object_size = made.size;
      request.alignment = 16;
      request.name = name;
      request.name_length = sizeof name;
      made.pool = tarn_pool_shared(&request);
    }
    group_count = number + 1;
  }
}

void* take(std::size_t number, std::size_t bytes) noexcept {
  group_pools& group = groups[number];
  if (group.buffers != nullptr) {
    std::size_t capacity = 0;
    return bytes < smallest_buffer ? nullptr : tarn_buffer_get(group.buffers, bytes, &capacity);
  }
  if (group.pool == nullptr || bytes > group.size) return nullptr;
  tarn_pool_bin*& bin = bin_of(number);
  void* const slot = detail::pop(bin);
  return slot != nullptr ? slot : tarn_pool_allocate_slow(group.pool, &bin);
}

bool give(void* block) noexcept {
  const std::size_t number = owner_of(block).number;
  if (number == group_count) return false;
  const group_pools& group = groups[number];
  if (group.buffers != nullptr) {
    tarn_buffer_give_back(group.buffers, block);
    return true;
  }
  tarn_pool_bin*& bin = bin_of(number);
  if (!detail::push(bin, block)) tarn_pool_deallocate_slow(group.pool, &bin, block);
  return true;
}

std::size_t capacity_of(const void* block) noexcept { return owner_of(block).capacity; }

unsigned long taken(std::size_t number) noexcept {
  if (groups[number].buffers != nullptr) {
    tarn_buffer_stats figures{};
    tarn_buffer_get_stats(groups[number].buffers, &figures, sizeof figures);
    return figures.gets;
  }
  if (groups[number].pool == nullptr) return 0;
  tarn_pool_stats figures{};
  tarn_pool_get_stats(groups[number].pool, &figures, sizeof figures);
  return figures.hits + figures.refills;
}

}  // namespace tarn::profiler::apply_pools
