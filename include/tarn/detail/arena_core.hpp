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
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

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

// ---- memory ----

TARN_DETAIL_COLD inline void* arena_core::allocate_slow(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t needed = block_for(bytes, alignment);
  if (needed == 0) return nullptr;
  if (needed > large_request) return allocate_large(bytes, alignment);
  return grow(needed) ? bump(bytes, alignment) : nullptr;
}

TARN_DETAIL_COLD inline void* arena_core::allocate_slow_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate_slow(bytes, alignment);
  if (memory == nullptr) throw_bad_alloc();
  return memory;
}

// Beside the current block, whose rest stays in use.
inline void* arena_core::allocate_large(std::size_t bytes, std::size_t alignment) noexcept {
  struct large {
    arena_cleanup cleanup;
    std::size_t bytes;
  };
  alignment = std::max(alignment, block_alignment);
  std::size_t taken = sizeof(large) + alignment + bytes + redzone;
  void* const pages = tarn_pages_take(&taken);
  if (pages == nullptr) return nullptr;
  const auto run = [](arena_core& core, arena_cleanup* self) noexcept {
    auto* const l = reinterpret_cast<large*>(self);
    const std::size_t size = l->bytes;
    core.large_bytes -= size;
    core.reserved -= size;
    unpoison(self, size);
    tarn_pages_give(self);
  };
  auto* const l = ::new (pages) large{{cleanups, run}, taken};
  cleanups = &l->cleanup;
  large_bytes += taken;
  reserved += taken;
  const auto low = reinterpret_cast<std::uintptr_t>(l + 1);
  auto* const memory = reinterpret_cast<char*>((low + alignment - 1) & (0 - alignment));
  poison(l + 1, taken - sizeof(large));
  unpoison(memory, bytes);
  return memory;
}

inline bool arena_core::grow(std::size_t needed) noexcept {
  arena_block* b = take_spare(needed);
  if (b == nullptr) b = take_pages(needed);
  if (b == nullptr) return false;
  b->below = block;
  install(b);
  return true;
}

inline arena_block* arena_core::take_spare(std::size_t needed) noexcept {
  for (arena_block** link = &spare; *link != nullptr; link = &(*link)->below) {
    arena_block* const b = *link;
    if (b->bytes < needed) continue;
    *link = b->below;
    spare_bytes -= b->bytes;
    return b;
  }
  return nullptr;
}

// As much as there is already, so that an arena of n bytes has taken O(log n) blocks up to the largest.
inline arena_block* arena_core::take_pages(std::size_t needed) noexcept {
  const std::size_t wanted = std::clamp(std::max(reserved - large_bytes, recent), first_block, largest_block);
  std::size_t taken = std::max(wanted, needed);
  void* pages = tarn_pages_take(&taken);
  if (pages == nullptr && wanted > needed) {
    taken = needed;
    pages = tarn_pages_take(&taken);
  }
  if (pages == nullptr) return nullptr;
  reserved += taken;
  auto* const b = ::new (pages) arena_block{nullptr, taken};
  poison(b->begin(), taken - sizeof(arena_block));
  return b;
}

inline void arena_core::give_pages(arena_block* b) noexcept {
  reserved -= b->bytes;
  unpoison(b, b->bytes);
  tarn_pages_give(b);
}

inline void arena_core::install(arena_block* b) noexcept {
  block = b;
  begin = b != nullptr ? b->begin() : no_block;
  cursor = b != nullptr ? b->end() : no_block;
}

inline void arena_core::adopt_buffer(void* memory, std::size_t bytes) noexcept {
  const std::size_t skip = (0 - reinterpret_cast<std::uintptr_t>(memory)) & (block_alignment - 1);
  if (bytes < skip + sizeof(arena_block)) return;
  __asm__("" : "+r"(memory));  // else GCC warns that poisoning reads it
  buffer = ::new (static_cast<void*>(static_cast<char*>(memory) + skip)) arena_block{nullptr, bytes - skip};
  poison(buffer->begin(), buffer->bytes - sizeof(arena_block));
  reserved += buffer->bytes;
  install(buffer);
}

inline bool arena_core::reserve(std::size_t bytes) noexcept {
  if (static_cast<std::size_t>(cursor - begin) >= bytes) return true;
  const std::size_t needed = block_for(bytes, block_alignment);
  return needed != 0 && grow(needed);
}

// ---- the end of a round ----

// A destructor may allocate and create in the arena: what it creates ends here, too.
inline void arena_core::run_cleanups(arena_cleanup* until) noexcept {
  while (cleanups != until) {
    arena_cleanup* const c = cleanups;
    cleanups = c->older;
    c->run(*this, c);
  }
}

// Makes the blocks above `until` spare, newest first, ahead of those that are.
inline void arena_core::pop_blocks(const arena_block* until) noexcept {
  arena_block* const newest = block;
  arena_block* oldest = nullptr;
  for (arena_block* b = newest; b != until; b = b->below) {
    if (b == nullptr) tarn_arena_fatal("arena rewound to a marker that is no longer valid", until);
    char* const low = b == newest ? cursor : b->begin();
    retire(low, static_cast<std::size_t>(b->end() - low));
    spare_bytes += b->bytes;
    oldest = b;
  }
  if (oldest == nullptr) return;
  block = oldest->below;
  oldest->below = spare;
  spare = newest;
}

inline void arena_core::end_round(std::size_t bytes_used) noexcept {
  recent = std::max(bytes_used, recent - recent / 8);
  if (reserved - large_bytes > std::max(2 * recent, least_kept)) keep_recent();
}

// Gives back the spare blocks that recent use does not ask for: twice what was in use, since blocks double.
inline void arena_core::keep_recent() noexcept {
  const std::size_t most = std::max(2 * recent, least_kept);
  std::size_t kept = reserved - large_bytes - spare_bytes;
  spare_bytes = 0;
  for (arena_block** link = &spare; *link != nullptr;) {
    arena_block* const b = *link;
    if (b->bytes <= most && kept <= most - b->bytes) {
      kept += b->bytes;
      spare_bytes += b->bytes;
      link = &b->below;
    } else {
      *link = b->below;
      give_pages(b);
    }
  }
}

inline void arena_core::reset() noexcept {
  run_cleanups(nullptr);
#if TARN_CHECKED_POOLS
  marks = nullptr;
#endif
  if (TARN_DETAIL_LIKELY(block != nullptr && block->below == nullptr && block->bytes <= least_kept &&
                         spare == nullptr)) {
    retire(cursor, static_cast<std::size_t>(block->end() - cursor));
    cursor = block->end();
    return;
  }
  reset_slow();
}

TARN_DETAIL_COLD inline void arena_core::reset_slow() noexcept {
  const std::size_t bytes_used = used();
  pop_blocks(buffer);
  install(nullptr);
  end_round(bytes_used);
  // The user's buffer first, else the newest, which is the largest as a rule.
  arena_block* b = buffer;
  if (b != nullptr) {
    retire(b->begin(), b->bytes - sizeof(arena_block));
  } else {
    b = take_spare(0);
    if (b != nullptr) b->below = nullptr;
  }
  install(b);
}

inline void arena_core::release() noexcept {
  run_cleanups(nullptr);
#if TARN_CHECKED_POOLS
  marks = nullptr;
#endif
  pop_blocks(buffer);
  while (arena_block* const b = take_spare(0)) give_pages(b);
  if (buffer != nullptr) retire(buffer->begin(), buffer->bytes - sizeof(arena_block));
  recent = 0;
  install(buffer);
}

inline void arena_core::end() noexcept {
  if (reserved == 0) return;
  release();
  if (buffer != nullptr) unpoison(buffer, buffer->bytes);
  *this = {};
}

inline arena_marker arena_core::mark() noexcept {
#if TARN_CHECKED_POOLS
  // Nothing was allocated since the last one: the same place.
  if (marks != nullptr && reinterpret_cast<char*>(marks) == cursor) return marks->marker;
  static constinit std::atomic<std::uint64_t> serials{0};
  const arena_marker marker{block, cursor, cleanups, serials.fetch_add(1, std::memory_order_relaxed) + 1};
  record_mark(marker);
  return marker;
#else
  return {block, cursor, cleanups};
#endif
}

inline void arena_core::rewind(const arena_marker& marker) noexcept {
#if TARN_CHECKED_POOLS
  arena_mark_record* const older = marks_before(marker);
#endif
  run_cleanups(marker.cleanups);
#if TARN_CHECKED_POOLS
  marks = older;
#endif
  if (TARN_DETAIL_LIKELY(block == marker.block && spare == nullptr && block != nullptr)) {
    // The cursor may be higher, if the last allocation before the mark was taken back.
    if (marker.cursor > cursor) {
      retire(cursor, static_cast<std::size_t>(marker.cursor - cursor));
      cursor = marker.cursor;
    }
  } else {
    rewind_slow(marker);
  }
#if TARN_CHECKED_POOLS
  record_mark(marker);
#endif
}

TARN_DETAIL_COLD inline void arena_core::rewind_slow(const arena_marker& marker) noexcept {
  if (marker.block == nullptr) return reset();
  const std::size_t bytes_used = used() - large_bytes;
  char* low = cursor;
  if (block != marker.block) {
    pop_blocks(marker.block);
    install(block);
    low = begin;
  }
  if (marker.cursor > low) {
    retire(low, static_cast<std::size_t>(marker.cursor - low));
    low = marker.cursor;
  }
  cursor = low;
  end_round(bytes_used);
}

#if TARN_CHECKED_POOLS
// Without memory, the marker is not known, and rewinding to it is refused.
inline void arena_core::record_mark(const arena_marker& marker) noexcept {
  void* const memory = allocate(sizeof(arena_mark_record), alignof(arena_mark_record));
  if (memory != nullptr) marks = ::new (memory) arena_mark_record{marks, marker};
}

inline arena_mark_record* arena_core::marks_before(const arena_marker& marker) noexcept {
  for (arena_mark_record* r = marks; r != nullptr; r = r->older) {
    if (r->marker.serial == marker.serial) return r->older;
  }
  tarn_arena_fatal("arena rewound to a marker that is no longer valid", marker.cursor);
}
#endif

}  // namespace TARN_POOL_MODE

}  // namespace tarn::detail
