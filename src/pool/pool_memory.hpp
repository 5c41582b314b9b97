// SPDX-License-Identifier: MIT
// pool_memory: where typed pools' structures come from, and what sanitizers are told about their slots.
#pragma once

#include <cstddef>

#include "pool/block_store.hpp"

extern "C" {
// AddressSanitizer's, where the program has it.
[[gnu::weak]] void __asan_poison_memory_region(void const volatile* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
// LeakSanitizer's: what objects in memory that it does not know point to would be leaks.
[[gnu::weak]] void __lsan_register_root_region(const void* begin, std::size_t bytes);
[[gnu::weak]] void __lsan_unregister_root_region(const void* begin, std::size_t bytes);
}

namespace tarn::pool_memory {

#pragma GCC visibility push(hidden)
extern block_store blocks;
#pragma GCC visibility pop

// A span becomes a pool's, and ceases to be one.
inline void announce(void* memory, std::size_t bytes) {
  if (__lsan_register_root_region != nullptr) __lsan_register_root_region(memory, bytes);
}
inline void renounce(void* memory, std::size_t bytes) {
  if (__lsan_unregister_root_region != nullptr) __lsan_unregister_root_region(memory, bytes);
}

inline void poison(void* memory, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(void* memory, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(memory, bytes);
}

}  // namespace tarn::pool_memory
