// SPDX-License-Identifier: MIT
// The members of arena_core that are not inlined into callers: taking and freeing blocks, and the end of a round (the
// time between two resets or rewinds).
//
// In a header, not in the library, because the program's build decides whether memory is poisoned and checked.
// Invariants and thread safety: arena_core.hpp.
#pragma once

#include "tarn/detail/abi.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "tarn/detail/arena_core.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

TARN_POOLS_BEGIN

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

// Gives the request pages of its own; the newest block stays the newest, with its room. A cleanup frees the pages:
//
//     pages
//     | large: cleanup, bytes | padding | memory |
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

// A new block is as large as all blocks so far, within [first_block, largest_block]: an arena of n bytes has O(log n)
// blocks below the largest size.
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
  __asm__("" : "+r"(memory));  // otherwise GCC warns that poisoning reads uninitialised memory
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

// Runs the cleanups that are newer than `until`. A destructor may create objects in the arena; the loop destroys them,
// too.
inline void arena_core::run_cleanups(arena_cleanup* until) noexcept {
  while (cleanups != until) {
    arena_cleanup* const c = cleanups;
    cleanups = c->older;
    c->run(*this, c);
  }
}

// Makes the blocks that are newer than `until` spare, newest first, in front of the other spare blocks.
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

// Frees spare blocks until the arena has at most twice the recent use. Twice, because blocks double.
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
  // Starts with the caller's buffer, else with the newest spare block, which is usually the largest.
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
  // Nothing was allocated since the newest marker: it is returned again. (A large request moves no cursor, but adds a
  // cleanup.)
  if (marks != nullptr && reinterpret_cast<char*>(marks) == cursor && marks->marker.cleanups == cleanups)
    return marks->marker;
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
    // The cursor may be above the marker: if the newest allocation before the mark was freed by take_back().
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
  if (marker.is_of_empty_arena()) return reset();
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
// If there is no memory for the record, rewinding to the marker ends the process.
inline void arena_core::record_mark(const arena_marker& marker) noexcept {
  void* const memory = allocate(sizeof(arena_mark_record), alignof(arena_mark_record));
  if (memory != nullptr) marks = ::new (memory) arena_mark_record{marks, marker};
}

// The records of the markers older than `marker`. Ends the process if `marker` has no record.
inline arena_mark_record* arena_core::marks_before(const arena_marker& marker) noexcept {
  for (arena_mark_record* r = marks; r != nullptr; r = r->older) {
    if (r->marker.serial == marker.serial) return r->older;
  }
  tarn_arena_fatal("arena rewound to a marker that is no longer valid", marker.cursor);
}
#endif

TARN_POOLS_END

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
