// SPDX-License-Identifier: MIT
// hardened_block: what the hardened build does to every block of a size class when it is handed out and taken back.
//
//     live:  | usable bytes ...                  | canary |
//     free:  | 0 ...                             | 0      |
//            ^ object                            ^ object + size - canary_bytes
//
//   - Canaries. The last eight bytes of an object hold a secret of the process combined with the object's address while
//     the program owns the object, and zero while it is free; the usable bytes end before them. free() replaces the
//     canary by zero, atomically if the process has ever had two threads, so if two threads free one block, one of them
//     ends the process. free() and realloc() also check the canary of the object before.
//   - Zeroes. A freed block is zeroed, and must be all zero when it is handed out again. So a live object is never
//     handed out, as its canary is not zero.
//   - Quarantine (threads/hardened_quarantine.hpp, hardened_large_quarantine.hpp). A freed block is handed out again
//     only after some other blocks have been freed.
//
// Thread safety: all functions may be called by any thread, for blocks that it owns. A detected error ends the process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/engine.hpp"
#include "slots/free_mark.hpp"

namespace tarn::hardened_block {

// The least object size that serves a request of `size` bytes. Requires: size <= largest_class_size - canary_bytes.
constexpr std::size_t padded(std::size_t size) { return size + canary_bytes + (size == 0 ? 1 : 0); }

using word __attribute__((may_alias)) = std::uint64_t;
// Addresses and sizes of objects are multiples of 16 in the hardened build.
using two_words __attribute__((may_alias, vector_size(16))) = std::uint64_t;

TARN_ALWAYS_INLINE word canary_of(std::uintptr_t object) {
  return object * 0x9e3779b97f4a7c15U ^ free_mark::secret.value;
}
TARN_ALWAYS_INLINE word* canary_at(std::uintptr_t object, std::size_t size) {
  return reinterpret_cast<word*>(object + size - canary_bytes);
}

// Whether all bytes of a small object are zero.
TARN_ALWAYS_INLINE bool is_zero(const void* object, std::size_t size) {
  const auto* at = static_cast<const two_words*>(object);
  const two_words* const end = at + size / sizeof(two_words);
  two_words any = *at;
  if (size >= 4 * sizeof(two_words)) {
    const two_words* const last = end - 4;
    two_words more = at[1] | at[2];
    any |= at[3];
    while ((at += 4) < last) {
      more |= at[0] | at[1];
      any |= at[2] | at[3];
    }
    any |= more | last[0] | last[1] | last[2] | last[3];
  } else {
    while (++at != end) any |= *at;
  }
  return (any[0] | any[1]) == 0;
}

TARN_ALWAYS_INLINE void zero(void* object, std::size_t size) {
  constexpr std::size_t worth_a_call = 256;
  if (size > worth_a_call) {
    __builtin_memset(object, 0, size);
    return;
  }
  auto* at = static_cast<two_words*>(object);
  const two_words* const end = at + size / sizeof(two_words);
  do {
    *at = two_words{};
    asm("" : "+r"(at));  // keeps the compiler from calling memset
  } while (++at != end);
}

// Ends the process: `object` was written to while it was free.
[[noreturn]] void report_written(const void* object);

// Hands out a small object of `size` bytes that was just taken from a magazine or span: checks that it is zero, and
// sets the canary.
TARN_ALWAYS_INLINE void hand_out(void* object, std::size_t size) {
  if (TARN_UNLIKELY(!is_zero(object, size))) report_written(object);
  __atomic_store_n(canary_at(address_of(object), size), canary_of(address_of(object)), __ATOMIC_RELAXED);
}

// The same for any object of a size class.
void hand_out_any(void* object, std::size_t size);

// free() of a small block by a thread that has a cache. False, and nothing is done: the block is not small, the thread
// has no cache, or the block is faulty; the caller takes the slow path.
TARN_ALWAYS_INLINE bool take_back_small(void* block);

// The fault that freeing or resizing `block` shows, as a message, or null. Requires: an object of the page's span
// begins at `block`.
const char* fault_of(page_map::entry page, const void* block);

// As is_sound_before(), for an object that may be the first of its page or of its span.
bool is_sound_before_first(const span* s, std::uintptr_t object, std::size_t size);

// free() of any block of a size class. `cache`: the thread's, or null.
void take_back(page_map::entry page, void* block, thread_cache* cache);

// free() of a small block of a scope: checks and removes its canary, and zeroes it. (No quarantine: it would hold the
// scope's spans.) Requires: the block stays accessible meanwhile (scope_core::deallocate()).
void take_back_scoped(const span* s, void* block);

// Puts an object that leaves a quarantine into its span, because the magazine of its class is full or there is no
// cache.
void put_into_span(quarantined leaving);

// Memory is short: puts all blocks of the process's quarantine (hardened_large_quarantine.hpp) into their spans.
void release_quarantine();

// ---- inline ----

// Whether the canary of the object before this one is intact (a canary, or zero if that object is free). An object
// that is not the first in its page has another object of the span before it.
TARN_ALWAYS_INLINE bool is_sound_before(const span* s, std::uintptr_t object, std::size_t size) {
  if (TARN_UNLIKELY((object & (page_size - 1)) < size)) return is_sound_before_first(s, object, size);
  const word found = __atomic_load_n(reinterpret_cast<const word*>(object) - 1, __ATOMIC_RELAXED);
  return found == 0 || found == canary_of(object - size);
}

// Replaces the canary by zero. False if it is not `expected`. Relaxed: of two threads one gets the canary; the order
// of the block's other bytes is the program's responsibility.
// NOLINTNEXTLINE(readability-non-const-parameter): the exchange writes the word
TARN_ALWAYS_INLINE bool take_canary(word* canary, word expected) {
  if (__atomic_load_n(canary, __ATOMIC_RELAXED) != expected) return false;
  if (TARN_LIKELY(!engine::budget.has_had_several.load(std::memory_order_relaxed))) {
    __atomic_store_n(canary, 0, __ATOMIC_RELAXED);
    return true;
  }
  return __atomic_exchange_n(canary, 0, __ATOMIC_RELAXED) == expected;
}

TARN_ALWAYS_INLINE bool take_back_small(void* block) {
  const page_map::entry page = engine::map.find(address_of(block));
  const auto size_class = static_cast<unsigned>(page.size_class());
  if (TARN_UNLIKELY(size_class - 1 >= thread_quarantine::small_end)) return false;
  thread_cache* const cache = engine::local_cache;
  const auto& info = class_info(size_class);
  if (TARN_UNLIKELY(cache == &engine::no_cache || !page.begins_object(address_of(block), info.reciprocal) ||
                    !is_sound_before(page.owner(address_of(block)), address_of(block), info.size))) {
    return false;
  }
  if (TARN_UNLIKELY(!take_canary(canary_at(address_of(block), info.size), canary_of(address_of(block))))) {
    return false;
  }
  zero(block, info.size);
  const quarantined leaving = cache->quarantine().exchange({block, size_class}, size_class);
  if (TARN_UNLIKELY(leaving.empty())) return true;
  if (TARN_UNLIKELY(!cache->push_free(leaving.size_class(), leaving.object()))) put_into_span(leaving);
  return true;
}

}  // namespace tarn::hardened_block
