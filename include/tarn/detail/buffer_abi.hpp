// SPDX-License-Identifier: MIT
// The untyped buffer pool behind buffer_pool, locked_buffer_pool, buffer_allocator and buffer_resource.
//
// A buffer is a span of the engine's page heap. A buffer that is given back stays whole and backed by memory in its
// pool, for the next request of about its size. Thread safety: all functions may be called by any thread. None throws.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <cstdint>

#include "tarn/malloc.h"

struct tarn_buffer_pool;  // the library's

enum tarn_buffer_prefault : std::uint8_t {
  tarn_buffer_prefault_never,   // by the program's first writes
  tarn_buffer_prefault_in_get,  // by tarn_buffer_get, for the whole buffer in one system call
  tarn_buffer_prefault_ahead,   // the same, and the background thread keeps further buffers ready
};

enum tarn_buffer_huge_pages : std::uint8_t {
  tarn_buffer_huge_automatic,
  tarn_buffer_huge_always,
  tarn_buffer_huge_never,
};

struct tarn_buffer_request {
  const char* name;  // copied, up to 127 bytes; need not end with a null byte
  std::size_t name_length;
  std::size_t
      alignment;  // a power of two up to 1 GiB; raised to 8 KiB or the system's page, whichever is larger
  std::size_t budget;     // most bytes of kept buffers; 0: an eighth of the memory that the process may use
  std::int64_t idle_ms;   // how long a kept buffer stays; -1: for ever
  std::size_t ahead;      // with tarn_buffer_prefault_ahead: how many buffers to keep ready
  std::uint8_t prefault;  // tarn_buffer_prefault
  std::uint8_t huge;      // tarn_buffer_huge_pages
  bool zeroed;            // all buffers are zero when they are handed out
  bool locked;            // locked in memory, left out of core dumps, wiped when they come back
  bool wiped_on_fork;     // with `locked`: a forked child finds zeroes
  bool checked;           // detects misuse; with guard bytes at the end of each buffer
};

struct tarn_buffer_figures {
  std::uint64_t gets;              // buffers handed out
  std::uint64_t hits;              // of these, served by kept buffers
  std::uint64_t misses;            // of these, served by the page heap or the system
  std::uint64_t live;              // buffers in the program's hands
  std::uint64_t live_bytes;        // of these
  std::uint64_t kept;              // idle buffers
  std::uint64_t kept_bytes;        // of these
  std::uint64_t leaving_bytes;     // idle beyond the budget, on their way to the system
  std::uint64_t given_back;        // bytes given to the system so far
  std::uint64_t prepared;          // buffers faulted in ahead of demand or by tarn_buffer_reserve
  std::uint64_t zeroed_by_memset;  // bytes
  std::uint64_t zeroed_by_system;  // bytes, by fresh pages in place of used ones
  std::uint64_t budget;            // most bytes of kept buffers now: as asked for, less under memory pressure
};

extern "C" {

// Null: no memory (errno ENOMEM), or an invalid request (EINVAL).
TARN_API tarn_buffer_pool* tarn_buffer_pool_create(const tarn_buffer_request* request) noexcept;
// The process-wide pool, with all options at their defaults; created by the first call. Null when there is no memory.
TARN_API tarn_buffer_pool* tarn_buffer_pool_shared() noexcept;
// Requires: no other thread uses the pool any more. Frees the kept buffers; live ones stay valid, and are freed when
// they are given back.
TARN_API void tarn_buffer_pool_destroy(tarn_buffer_pool* pool) noexcept;

// A buffer of at least `bytes` bytes, of which *capacity bytes may be used. Null: no memory (errno ENOMEM), or, for a
// locked pool, no more memory may be locked (EPERM).
TARN_API void* tarn_buffer_get(tarn_buffer_pool* pool, std::size_t bytes, std::size_t* capacity) noexcept;
// Gives a buffer back to its pool, which is found by the address. `pool`, unless null, is the pool that the buffer must
// belong to; only checked pools compare it. Aborts with a message on a pointer that is not a live buffer. Leaves errno
// alone.
TARN_API void tarn_buffer_give(tarn_buffer_pool* pool, void* buffer) noexcept;
// The pool of the live buffer that begins at `address`, with its usable bytes in *capacity; null if there is none.
TARN_API tarn_buffer_pool* tarn_buffer_pool_of(const void* address, std::size_t* capacity) noexcept;

// Makes kept buffers for requests of `bytes` bytes, backed by memory, until there are `count`. False: no memory (errno
// ENOMEM), no more memory may be locked (EPERM), or they exceed the budget (EDQUOT).
TARN_API bool tarn_buffer_reserve(tarn_buffer_pool* pool, std::size_t bytes, std::size_t count) noexcept;
// Gives all kept buffers to the system; returns the bytes.
TARN_API std::size_t tarn_buffer_trim(tarn_buffer_pool* pool) noexcept;
TARN_API void tarn_buffer_get_figures(const tarn_buffer_pool* pool, tarn_buffer_figures* out) noexcept;

// Calls visit(context, name, figures) for every pool. The name ends with a null byte.
TARN_API void tarn_buffer_visit(void (*visit)(void* context, const char* name,
                                              const tarn_buffer_figures* figures),
                                void* context) noexcept;

}  // extern "C"
