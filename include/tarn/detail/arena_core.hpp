// SPDX-License-Identifier: MIT
// arena_core: the untyped part of an arena: blocks of pages, a cursor in the newest, and the cleanups to run at the
// end.
//
// Owner: one tarn::arena. Thread safety: none; the thread that uses it may change between calls.
// The header of a block lies at its low end, and the cursor moves down from its high end. So aligning takes one mask,
// and alignments up to block_alignment cannot move the cursor below `begin`:
//
//     block   begin              cursor                  end
//     | below, bytes |   free    | newest ...      oldest |
//                      <-- allocations grow downwards
//
// Invariants: begin is a multiple of block_alignment; begin <= cursor <= end of `block`; the blocks in use are linked
// by `below` from the newest (`block`) to the oldest; the caller's buffer, if there is one, is the oldest; spare_bytes
// = bytes of the spare blocks; reserved = bytes of the blocks in use + spare_bytes + large_bytes.
#pragma once

#include "tarn/detail/abi.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tarn/detail/config.hpp"
#include "tarn/detail/pages.hpp"

extern "C" {
// Ends the process with a one-line message.
[[noreturn]] TARN_API void tarn_arena_fatal(const char* what, const void* where) noexcept;
}

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

TARN_POOLS_BEGIN

inline constexpr std::size_t block_alignment = 16;
inline constexpr std::size_t first_block = 8 * 1024;
inline constexpr std::size_t largest_block = 1024 * 1024;
// Larger requests get pages of their own, which are freed when the arena is reset or rewound.
inline constexpr std::size_t large_request = largest_block / 2;
// A reset keeps this many bytes even if recent use was less.
inline constexpr std::size_t least_kept = 64 * 1024;
// Poisoned bytes above every allocation, so that AddressSanitizer reports accesses past its end.
inline constexpr std::size_t redzone = TARN_DETAIL_ASAN != 0 ? 16 : 0;
inline constexpr std::size_t least_alignment = TARN_DETAIL_ASAN != 0 ? 8 : 1;
inline constexpr std::size_t most_request = SIZE_MAX / 8;

struct arena_block {
  arena_block* below;  // of a block in use: the next older one; of a spare one: the next spare one
  std::size_t bytes;   // including this header

  [[nodiscard]] char* begin() noexcept { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] char* end() noexcept { return reinterpret_cast<char*>(this) + bytes; }
};
static_assert(sizeof(arena_block) % block_alignment == 0);

struct arena_core;

// A function that runs when the arena is rewound past it. Lies in the arena, before the objects that it destroys.
struct arena_cleanup {
  arena_cleanup* older;
  void (*run)(arena_core& core, arena_cleanup* self) noexcept;
};

struct arena_marker {
  arena_block* block = nullptr;
  char* cursor = nullptr;
  arena_cleanup* cleanups = nullptr;
#if TARN_CHECKED_POOLS
  std::uint64_t serial = 0;
#endif

  // An arena without a block may have large requests, each of which has a cleanup.
  [[nodiscard]] bool is_of_empty_arena() const noexcept { return block == nullptr && cleanups == nullptr; }
};

// In checked builds: the markers that are still valid, newest first. A record is the first allocation after its
// marker, so whatever invalidates the marker removes the record.
struct arena_mark_record {
  arena_mark_record* older;
  arena_marker marker;
};

// `begin` and `cursor` of an arena without blocks: no room, but not null.
alignas(block_alignment) inline constinit char no_block[block_alignment] = {};

struct arena_core {
  char* cursor = no_block;
  char* begin = no_block;
  arena_block* block = nullptr;
  arena_cleanup* cleanups = nullptr;
  arena_block* spare = nullptr;   // free blocks, newest first, so mostly the largest first
  arena_block* buffer = nullptr;  // the caller's
  std::size_t reserved = 0;
  std::size_t spare_bytes = 0;
  std::size_t large_bytes = 0;
  std::size_t recent = 0;  // most bytes in use in a round; falls by an eighth per round that used less
#if TARN_CHECKED_POOLS
  arena_mark_record* marks = nullptr;
#endif

  // Allocates in the newest block; null if it has no room.
  TARN_DETAIL_INLINE void* bump(std::size_t bytes, std::size_t alignment) noexcept {
    if constexpr (TARN_CHECKED_POOLS != 0) check_alignment(alignment);
    const auto room = static_cast<std::size_t>(cursor - begin);
    if (TARN_DETAIL_UNLIKELY(bytes > room || redzone > room - bytes)) return nullptr;
    const auto high = reinterpret_cast<std::uintptr_t>(cursor);
    const std::size_t align = std::max(alignment, least_alignment);
    const std::uintptr_t low = (high - bytes - redzone) & (0 - align);
    if (TARN_DETAIL_UNLIKELY(align > block_alignment && low < reinterpret_cast<std::uintptr_t>(begin))) {
      return nullptr;
    }
    if (low == 0) __builtin_unreachable();  // lets the compiler drop callers' tests for null
    cursor = reinterpret_cast<char*>(low);
    unpoison(cursor, bytes);
    return cursor;
  }

  TARN_DETAIL_INLINE void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    void* const memory = bump(bytes, alignment);
    return TARN_DETAIL_LIKELY(memory != nullptr) ? memory : allocate_slow(bytes, alignment);
  }
  TARN_DETAIL_INLINE void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
    void* const memory = bump(bytes, alignment);
    return TARN_DETAIL_LIKELY(memory != nullptr) ? memory : allocate_slow_or_throw(bytes, alignment);
  }

  // Frees the memory if it is the newest allocation. A marker set after that allocation then lies below the cursor,
  // which rewind() allows for.
  TARN_DETAIL_INLINE void take_back(void* memory, std::size_t bytes) noexcept {
    if (memory != cursor) return;
    retire(cursor, bytes);
    cursor += bytes + redzone;
  }

  [[nodiscard]] std::size_t used() const noexcept {
    if (block == nullptr) return large_bytes;
    return reserved - spare_bytes - block->bytes + static_cast<std::size_t>(block->end() - cursor);
  }

  void adopt_buffer(void* memory, std::size_t bytes) noexcept;
  // Makes a block with room for `bytes` bytes the newest. False when there is no memory.
  bool reserve(std::size_t bytes) noexcept;
  arena_marker mark() noexcept;
  void rewind(const arena_marker& marker) noexcept;
  void reset() noexcept;
  void release() noexcept;
  // The arena's end: release(), and no further use of the caller's buffer.
  void end() noexcept;

 private:
  static void retire(char* memory, std::size_t bytes) noexcept {
#if TARN_CHECKED_POOLS && !TARN_DETAIL_ASAN
    std::memset(memory, 0xdd, bytes);
#endif
    poison(memory, bytes);
  }
  static void check_alignment(std::size_t alignment) noexcept {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      tarn_arena_fatal("arena asked for an alignment that is no power of two",
                       reinterpret_cast<const void*>(alignment));
    }
  }
  // The bytes that a block needs to serve the request, whatever the alignment of its end; 0: too many for any machine.
  static std::size_t block_for(std::size_t bytes, std::size_t alignment) noexcept {
    if (bytes > most_request || alignment > most_request) return 0;
    return sizeof(arena_block) + bytes + redzone + (alignment > block_alignment ? alignment : 0);
  }

  void* allocate_slow(std::size_t bytes, std::size_t alignment) noexcept;
  [[gnu::__returns_nonnull__]] void* allocate_slow_or_throw(std::size_t bytes, std::size_t alignment);
  void* allocate_large(std::size_t bytes, std::size_t alignment) noexcept;
  bool grow(std::size_t needed) noexcept;
  arena_block* take_spare(std::size_t needed) noexcept;
  arena_block* take_pages(std::size_t needed) noexcept;
  void give_pages(arena_block* b) noexcept;
  void install(arena_block* b) noexcept;
  void run_cleanups(arena_cleanup* until) noexcept;
  void pop_blocks(const arena_block* until) noexcept;
  void end_round(std::size_t bytes_used) noexcept;
  void rewind_slow(const arena_marker& marker) noexcept;
  void reset_slow() noexcept;
  void keep_recent() noexcept;
#if TARN_CHECKED_POOLS
  void record_mark(const arena_marker& marker) noexcept;
  arena_mark_record* marks_before(const arena_marker& marker) noexcept;
#endif
};

TARN_POOLS_END

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn

#include "tarn/detail/arena_slow_paths.hpp"  // IWYU pragma: export
