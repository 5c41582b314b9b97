// SPDX-License-Identifier: MIT
#include "profiler/record/early_store.hpp"

#include <atomic>
#include <cstring>

namespace tarn::profiler::recorder {

namespace {

std::atomic<std::size_t> early_used{0};

}  // namespace

alignas(64) constinit unsigned char early_store[early_bytes] = {};

void* early_allocate(std::size_t size, std::size_t alignment) {
  if (alignment < 16) alignment = 16;
  if (size > early_bytes || alignment > early_bytes) return nullptr;
  std::size_t used = early_used.load(std::memory_order_relaxed);
  for (;;) {
    // The size is stored in the 8 bytes before the block.
    const auto base = reinterpret_cast<std::uintptr_t>(early_store);
    const std::size_t start = ((base + used + 16 + alignment - 1) & ~(alignment - 1)) - base;
    if (start + size > early_bytes) return nullptr;
    // relaxed: the store's memory is zero from the start, and each block has one owner
    if (!early_used.compare_exchange_weak(used, start + size, std::memory_order_relaxed)) continue;
    std::memcpy(early_store + start - 8, &size, sizeof size);
    return early_store + start;
  }
}

std::size_t early_size(const void* block) {
  std::size_t size = 0;
  std::memcpy(&size, static_cast<const unsigned char*>(block) - 8, sizeof size);
  return size;
}

}  // namespace tarn::profiler::recorder
