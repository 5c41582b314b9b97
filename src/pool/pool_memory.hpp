// SPDX-License-Identifier: MIT
// pool_memory: where typed pools' structures come from, and what sanitizers are told about their slots.
#pragma once

#include <cstddef>

#include "pool/block_store.hpp"

extern "C" {
// AddressSanitizer's, where the program has it.
[[gnu::weak]] void __asan_poison_memory_region(void const volatile* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
}

namespace tarn::pool_memory {

#pragma GCC visibility push(hidden)
extern block_store blocks;
#pragma GCC visibility pop

inline void poison(void* memory, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(void* memory, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(memory, bytes);
}

}  // namespace tarn::pool_memory
