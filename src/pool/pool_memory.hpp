// SPDX-License-Identifier: MIT
// pool_memory: metadata memory of typed pools and recyclers, and the calls that tell sanitizers about the slots of
// typed pools and the buffers of buffer pools. Thread safety: any thread.
#pragma once

#include <cstddef>

#include "pool/block_store.hpp"

extern "C" {
// Functions of AddressSanitizer; null in a program without it.
[[gnu::weak]] void __asan_poison_memory_region(void const volatile* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
// Functions of LeakSanitizer; null without it. Spans must be registered: otherwise LeakSanitizer does not search them
// for pointers, and reports a block as a leak if only pooled objects point to it.
[[gnu::weak]] void __lsan_register_root_region(const void* begin, std::size_t bytes);
[[gnu::weak]] void __lsan_unregister_root_region(const void* begin, std::size_t bytes);
}

namespace tarn::pool_memory {

#pragma GCC visibility push(hidden)
extern block_store blocks;
#pragma GCC visibility pop

// From now on, LeakSanitizer searches the memory for pointers.
inline void register_leak_root(void* memory, std::size_t bytes) {
  if (__lsan_register_root_region != nullptr) __lsan_register_root_region(memory, bytes);
}
// Requires: the same range as passed to register_leak_root().
inline void unregister_leak_root(void* memory, std::size_t bytes) {
  if (__lsan_unregister_root_region != nullptr) __lsan_unregister_root_region(memory, bytes);
}

// AddressSanitizer reports every access to the memory until unpoison().
inline void poison(void* memory, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(void* memory, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(memory, bytes);
}

}  // namespace tarn::pool_memory
