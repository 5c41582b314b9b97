// SPDX-License-Identifier: MIT
// arena_core: the untyped part of an arena: blocks of pages, a cursor in the newest, and what is to run at the end.
//
// Owner: one tarn::arena. Thread safety: none; its pages may come from and go back to any thread.
// A block has its structure at its low end, and the arena goes down from its high end: aligning is then one mask, and
// below alignments of block_alignment it cannot lead out of the block.
// Invariants: begin is a multiple of block_alignment; begin <= cursor <= end of `block`; the blocks in use hang
// together from the newest (`block`) to the oldest, the user's buffer, if there is one, being the oldest;
// reserved = bytes of the blocks in use + spare_bytes + large_bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tarn/detail/config.hpp"
#include "tarn/detail/pages.hpp"

extern "C" {
// Ends the process with a line that says what is wrong and where.
[[noreturn]] TARN_API void tarn_arena_fatal(const char* what, const void* where) noexcept;
}

namespace tarn::detail {

inline namespace TARN_POOL_MODE {

inline constexpr std::size_t block_alignment = 16;
inline constexpr std::size_t first_block = 8 * 1024;
inline constexpr std::size_t largest_block = 1024 * 1024;
// Larger requests get pages of their own, which go back when the arena is reset or rewound.
inline constexpr std::size_t large_request = largest_block / 2;
// Kept over a reset, whatever recent use was.
inline constexpr std::size_t least_kept = 64 * 1024;
// Poisoned bytes above every allocation, so that AddressSanitizer sees who writes beyond his own.
inline constexpr std::size_t redzone = TARN_DETAIL_ASAN != 0 ? 16 : 0;
inline constexpr std::size_t least_alignment = TARN_DETAIL_ASAN != 0 ? 8 : 1;
inline constexpr std::size_t most_request = SIZE_MAX / 8;

struct arena_block {
  arena_block* below;  // the next older one in use; the next spare one
  std::size_t bytes;   // with this structure

  [[nodiscard]] char* begin() noexcept { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] char* end() noexcept { return reinterpret_cast<char*>(this) + bytes; }
};
static_assert(sizeof(arena_block) % block_alignment == 0);

struct arena_core;

// What runs when the arena is rewound below it; it lies in the arena, next to what it ends.
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
};

// In checked programs: the markers that may still be rewound to, newest first. A record is the first allocation behind
// its marker, so what invalidates the marker removes the record.
struct arena_mark_record {
  arena_mark_record* older;
  arena_marker marker;
};

// Where an arena without blocks points to: no room, but not null.
alignas(block_alignment) inline constinit char no_block[block_alignment] = {};

struct arena_core {
  char* cursor = no_block;
  char* begin = no_block;
  arena_block* block = nullptr;
  arena_cleanup* cleanups = nullptr;
  arena_block* spare = nullptr;   // newest first, so mostly in falling size
  arena_block* buffer = nullptr;  // the user's
  std::size_t reserved = 0;
  std::size_t spare_bytes = 0;
  std::size_t large_bytes = 0;
  std::size_t recent = 0;  // most bytes in use at once; falls by an eighth per round that used less
#if TARN_CHECKED_POOLS
  arena_mark_record* marks = nullptr;
#endif

  // Null if the block has no room for it.
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
    if (low == 0) __builtin_unreachable();  // else callers' tests for null cost something
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

  // The last allocation only. A marker set since then is left below the cursor; rewind() copes.
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
  // A block with room for so many bytes at once. False when there is no memory.
  bool reserve(std::size_t bytes) noexcept;
  arena_marker mark() noexcept;
  void rewind(const arena_marker& marker) noexcept;
  void reset() noexcept;
  void release() noexcept;
  // The arena's end: release(), and the buffer is the user's again.
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
  // What a block must have to serve the request wherever its end lies; 0: no machine has it.
  static std::size_t block_for(std::size_t bytes, std::size_t alignment) noexcept {
    if (bytes > most_request || alignment > most_request) return 0;
    return sizeof(arena_block) + bytes + redzone + (alignment > block_alignment ? alignment : 0);
  }

  void* allocate_slow(std::size_t bytes, std::size_t alignment) noexcept;
  [[gnu::returns_nonnull]] void* allocate_slow_or_throw(std::size_t bytes, std::size_t alignment);
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

}  // namespace TARN_POOL_MODE

}  // namespace tarn::detail

#include "tarn/detail/arena_slow_paths.hpp"  // IWYU pragma: export
