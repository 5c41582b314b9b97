// SPDX-License-Identifier: MIT
#include "profiler/apply/apply_pools.hpp"

#include <atomic>
#include <cstdint>

#include "tarn/detail/buffer_abi.hpp"
#include "tarn/detail/pool_abi.hpp"

namespace tarn::profiler::apply_pools {

namespace {

constexpr std::size_t smallest_buffer = 65536;
constexpr std::uintptr_t buffer_alignment = 8192;

struct group_pools {
  tarn_pool* pool = nullptr;
  tarn_buffer_pool* buffers = nullptr;
  std::size_t size = 0;
};
constinit group_pools groups[most_apply_groups];
constinit std::size_t group_count = 0;
constinit thread_local tarn_pool_bin* bins[most_apply_groups];  // null: the empty one

// Buffers that the program holds. They are few, so a table with a lock suffices.
struct live_buffer {
  void* address = nullptr;
  std::size_t capacity = 0;
};
constexpr std::size_t table_size = 32768;
constinit live_buffer table[table_size];
constinit std::size_t live = 0;
constinit std::atomic_flag table_lock;

class table_guard {
 public:
  table_guard() noexcept {
    while (table_lock.test_and_set(std::memory_order_acquire)) {  // pairs with the end of another guard
    }
  }
  ~table_guard() { table_lock.clear(std::memory_order_release); }
  table_guard(const table_guard&) = delete;
  table_guard& operator=(const table_guard&) = delete;
};

std::size_t home_of(const void* address) {
  return static_cast<std::size_t>(((reinterpret_cast<std::uintptr_t>(address) >> 13) * 0x9e3779b97f4a7c15U) >>
                                  (64 - 15));
}

live_buffer* find_locked(void* address) {
  for (std::size_t at = home_of(address);; at = (at + 1) % table_size) {
    if (table[at].address == address) return &table[at];
    if (table[at].address == nullptr) return nullptr;
  }
}

// Closes the gap, so that a search may end at the first empty slot.
void remove_locked(live_buffer* entry) {
  std::size_t gap = static_cast<std::size_t>(entry - table);
  for (std::size_t at = (gap + 1) % table_size; table[at].address != nullptr; at = (at + 1) % table_size) {
    const std::size_t home = home_of(table[at].address);
    const std::size_t from_home = (at + table_size - home) % table_size;
    const std::size_t from_gap = (at + table_size - gap) % table_size;
    if (from_home < from_gap) continue;
    table[gap] = table[at];
    gap = at;
  }
  table[gap] = {nullptr, 0};
  --live;
}

bool insert(void* address, std::size_t capacity) {
  const table_guard guard;
  if (live >= table_size / 2) return false;
  std::size_t at = home_of(address);
  while (table[at].address != nullptr) at = (at + 1) % table_size;
  table[at] = {address, capacity};
  ++live;
  return true;
}

bool may_be_buffer(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) % buffer_alignment == 0;
}

void* take_buffer(group_pools& group, std::size_t bytes) {
  if (bytes < smallest_buffer) return nullptr;
  std::size_t capacity = 0;
  void* const block = tarn_buffer_get(group.buffers, bytes, &capacity);
  if (block == nullptr || insert(block, capacity)) return block;
  tarn_buffer_give(group.buffers, block);
  return nullptr;
}

bool give_buffer(void* block) {
  {
    const table_guard guard;
    live_buffer* const entry = find_locked(block);
    if (entry == nullptr) return false;
    remove_locked(entry);
  }
  tarn_buffer_give(nullptr, block);
  return true;
}

std::size_t group_of(const tarn_pool* pool) {
  std::size_t number = 0;
  while (number < group_count && groups[number].pool != pool) ++number;
  return number;
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
      tarn_buffer_request request{};
      request.alignment = 8192;
      request.name = name;
      request.name_length = sizeof name;
      request.idle_ms = 10000;
      made.buffers = tarn_buffer_pool_create(&request);
    } else {
      made.size = (wanted.size + 15) / 16 * 16;  // malloc's alignment
      tarn_pool_request request{};
      request.size = made.size;
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
  if (group.buffers != nullptr) return take_buffer(group, bytes);
  if (group.pool == nullptr || bytes > group.size) return nullptr;
  tarn_pool_bin*& bin = bin_of(number);
  void* const slot = detail::pop(bin);
  return slot != nullptr ? slot : tarn_pool_allocate_slow(group.pool, &bin);
}

bool give(void* block) noexcept {
  if (may_be_buffer(block) && give_buffer(block)) return true;
  tarn_pool* const pool = tarn_pool_of(block);
  if (pool == nullptr) return false;
  const std::size_t number = group_of(pool);
  if (number == group_count) return false;
  tarn_pool_bin*& bin = bin_of(number);
  if (!detail::push(bin, block)) tarn_pool_deallocate_slow(pool, &bin, block);
  return true;
}

std::size_t capacity_of(void* block) noexcept {
  if (may_be_buffer(block)) {
    const table_guard guard;
    const live_buffer* const entry = find_locked(block);
    if (entry != nullptr) return entry->capacity;
  }
  const tarn_pool* const pool = tarn_pool_of(block);
  const std::size_t number = pool != nullptr ? group_of(pool) : group_count;
  return number < group_count ? groups[number].size : 0;
}

unsigned long taken(std::size_t number) noexcept {
  if (groups[number].buffers != nullptr) {
    tarn_buffer_figures figures{};
    tarn_buffer_get_figures(groups[number].buffers, &figures);
    return figures.gets;
  }
  if (groups[number].pool == nullptr) return 0;
  tarn_pool_figures figures{};
  tarn_pool_get_figures(groups[number].pool, &figures);
  return figures.hits + figures.refills;
}

}  // namespace tarn::profiler::apply_pools
