// SPDX-License-Identifier: MIT
// early_store: memory for the hooks of malloc before the program's own malloc is known: dlsym may itself allocate. Nothing goes
// back. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::profiler::recorder {

// Null: the store is used up. The memory is zero.
void* early_allocate(std::size_t size, std::size_t alignment);
inline constexpr std::size_t early_bytes = std::size_t{64} << 10;
extern unsigned char early_store[early_bytes];
inline bool is_early(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(early_store) <
         early_bytes;
}
std::size_t early_size(const void* block);

}  // namespace tarn::profiler::recorder
