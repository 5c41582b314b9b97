// SPDX-License-Identifier: MIT
// pool_memory: the memory for the structures of typed pools, recyclers and buffer pools, and the calls by which
// sanitizers learn about their slots. Thread safety: any thread.
#pragma once

#include <cstddef>

#include "pool/block_store.hpp"

extern "C" {
// Functions of AddressSanitizer; null in a program without it.
[[gnu::weak]] void __asan_poison_memory_region(void const volatile* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
// Functions of LeakSanitizer; null without it. It does not search tarn's spans for pointers unless they are
// registered, and would report blocks to which only pooled objects point as leaks.
[[gnu::weak]] void __lsan_register_root_region(const void* begin, std::size_t bytes);
[[gnu::weak]] void __lsan_unregister_root_region(const void* begin, std::size_t bytes);
}

namespace tarn::pool_memory {

#pragma GCC visibility push(hidden)
extern block_store blocks;
#pragma GCC visibility pop

// LeakSanitizer is to search the memory for pointers, or no longer.
inline void register_leak_root(void* memory, std::size_t bytes) {
  if (__lsan_register_root_region != nullptr) __lsan_register_root_region(memory, bytes);
}
inline void unregister_leak_root(void* memory, std::size_t bytes) {
  if (__lsan_unregister_root_region != nullptr) __lsan_unregister_root_region(memory, bytes);
}

inline void poison(void* memory, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(void* memory, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(memory, bytes);
}

}  // namespace tarn::pool_memory
