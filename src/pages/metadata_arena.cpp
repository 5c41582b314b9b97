// SPDX-License-Identifier: MIT
#include "pages/metadata_arena.hpp"

#include <new>

#include "os/memory.hpp"

namespace tarn {
namespace {

constexpr std::size_t chunk_bytes = 4 * mib;
// Where address space is short.
constexpr std::size_t smallest_chunk_bytes = 64 * kib;

}  // namespace

void* metadata_arena::allocate(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    {
      os::lock_guard guard(lock_);
      if (void* block = take(bytes, alignment)) return block;
    }
    if (!grow(bytes + alignment)) return nullptr;
  }
}

bool metadata_arena::ensure_available(std::size_t bytes) {
  {
    os::lock_guard guard(lock_);
    if (end_ - next_ >= bytes) return true;
  }
  return grow(bytes);
}

void* metadata_arena::take(std::size_t bytes, std::size_t alignment) {
  const std::uintptr_t start = align_up(next_, alignment);
  if (next_ == 0 || start + bytes > end_) return nullptr;
  next_ = start + bytes;
  used_.fetch_add(bytes, std::memory_order_relaxed);
  return reinterpret_cast<void*>(start);
}

bool metadata_arena::grow(std::size_t bytes) {
  const std::size_t least = align_up(bytes < smallest_chunk_bytes ? smallest_chunk_bytes : bytes, 64 * kib);
  std::size_t size = least > chunk_bytes ? least : chunk_bytes;
  void* chunk = os::reserve(size, 64 * kib);
  while (chunk == nullptr && size > least) {
    size = size / 4 > least ? size / 4 : least;
    chunk = os::reserve(size, 64 * kib);
  }
  if (chunk == nullptr) return false;
  bool kept = false;
  {
    os::lock_guard guard(lock_);
    // Another thread may have been here first; its chunk is then used up before another is.
    if (next_ == 0 || end_ - next_ < bytes) {
      next_ = address_of(chunk);
      end_ = next_ + size;
      kept = true;
    }
  }
  if (!kept) os::release(chunk, size);
  return true;
}

void* metadata_pool::allocate(metadata_arena& arena) {
  {
    os::lock_guard guard(lock_);
    if (link* block = free_) {
      free_ = block->next;
      return block;
    }
  }
  return arena.allocate(bytes_, alignment_);
}

void metadata_pool::deallocate(void* block) {
  os::lock_guard guard(lock_);
  free_ = new (block) link{free_};
}

}  // namespace tarn
