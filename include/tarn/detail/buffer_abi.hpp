// SPDX-License-Identifier: MIT
// The untyped buffer pool behind buffer_pool, locked_buffer_pool, buffer_allocator and buffer_resource.
//
// A buffer is a span of the engine's page heap. One that is given back stays whole and backed by memory in its pool,
// for the next one of about its size. Thread safety: all functions may be called by any thread. None throws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tarn/malloc.h"

struct tarn_buffer_pool;  // the library's

enum tarn_buffer_prefault : std::uint8_t {
  tarn_buffer_prefault_never,   // the program's first writes fault
  tarn_buffer_prefault_in_get,  // the caller of get backs a fresh buffer in one call
  tarn_buffer_prefault_ahead,   // the same, and the background thread has some more ready
};

enum tarn_buffer_huge_pages : std::uint8_t {
  tarn_buffer_huge_automatic,
  tarn_buffer_huge_always,
  tarn_buffer_huge_never,
};

struct tarn_buffer_request {
  const char* name;  // copied, up to 127 bytes; need not end with a null byte
  std::size_t name_length;
  std::size_t alignment;  // a power of two up to 1 GiB; at least 8 KiB and the system's page in any case
  std::size_t budget;     // most bytes of kept buffers; 0: an eighth of the memory that the process may use
  std::int64_t idle_ms;   // how long a kept buffer stays; -1: for ever
  std::size_t ahead;      // with tarn_buffer_prefault_ahead: how many buffers are to be ready
  std::uint8_t prefault;  // tarn_buffer_prefault
  std::uint8_t huge;      // tarn_buffer_huge_pages
  bool zeroed;            // all buffers are zero when they are handed out
  bool locked;            // kept in memory, out of dumps, wiped when they come back
  bool wiped_on_fork;     // with `locked`: a forked child finds zeroes
  bool checked;           // with a guard behind each buffer
};

struct tarn_buffer_figures {
  std::uint64_t gets;              // buffers handed out
  std::uint64_t hits;              // of them, from what the pool had kept
  std::uint64_t misses;            // from the page heap or the system
  std::uint64_t live;              // buffers in the program's hands
  std::uint64_t live_bytes;        // of them
  std::uint64_t kept;              // buffers that wait for the next user
  std::uint64_t kept_bytes;        // of them
  std::uint64_t leaving_bytes;     // beyond the budget, on their way to the system
  std::uint64_t given_back;        // bytes given to the system so far
  std::uint64_t prepared;          // buffers made ready ahead of demand
  std::uint64_t zeroed_by_memset;  // bytes
  std::uint64_t zeroed_by_system;  // bytes, by fresh pages in place of used ones
  std::uint64_t budget;            // what holds now: as asked for, less under pressure
};

extern "C" {

// Null: no memory (errno ENOMEM), or the request makes no sense (EINVAL).
TARN_API tarn_buffer_pool* tarn_buffer_pool_create(const tarn_buffer_request* request) noexcept;
// The process-wide pool, with all options at their defaults; made by the first who asks. Null when there is no memory.
TARN_API tarn_buffer_pool* tarn_buffer_pool_shared() noexcept;
// Requires: nobody gets from the pool any more. Kept buffers go; live ones stay good, and go when they are given back.
TARN_API void tarn_buffer_pool_destroy(tarn_buffer_pool* pool) noexcept;

// A buffer of at least `bytes` bytes, in which *capacity bytes may be used. Null: no memory (errno ENOMEM), or, of a
// locked pool, no more may be locked (EPERM).
TARN_API void* tarn_buffer_get(tarn_buffer_pool* pool, std::size_t bytes, std::size_t* capacity) noexcept;
// Gives a buffer back to its pool, which it is found by. `pool`, unless null, is the one that it must be of: compared in
// checked pools only. Aborts, with one line that says why, on what is no live buffer. Leaves errno alone.
TARN_API void tarn_buffer_give(tarn_buffer_pool* pool, void* buffer) noexcept;

// Has `count` buffers for requests of `bytes` bytes ready, backed by memory, those counted that are. False: no memory
// (ENOMEM), none may be locked (EPERM), or the budget is too small (EDQUOT).
TARN_API bool tarn_buffer_reserve(tarn_buffer_pool* pool, std::size_t bytes, std::size_t count) noexcept;
// Gives what the pool keeps to the system; returns the bytes.
TARN_API std::size_t tarn_buffer_trim(tarn_buffer_pool* pool) noexcept;
TARN_API void tarn_buffer_get_figures(const tarn_buffer_pool* pool, tarn_buffer_figures* out) noexcept;

// Calls visit(context, name, figures) for every pool there is. The name ends with a null byte.
TARN_API void tarn_buffer_visit(void (*visit)(void* context, const char* name,
                                              const tarn_buffer_figures* figures),
                                void* context) noexcept;

}  // extern "C"
