// SPDX-License-Identifier: MIT
// rocksdb_block_memory: the memory of RocksDB's block caches (rocksdb::MemoryAllocator), apart from the program's other memory.
//
//     rocksdb::LRUCacheOptions cache;
//     cache.capacity = std::size_t{4} << 30;
//     cache.memory_allocator = std::make_shared<tarn::rocksdb_block_memory>();
//     table.block_cache = rocksdb::NewLRUCache(cache);
//
// A cache fills memory with blocks that live long and go one by one, between short-lived blocks of the same sizes that the
// rest of the program allocates; the spans of malloc then stay partly used when the cache shrinks. Here blocks up to 64 KiB
// lie in pools by size, sixteen sizes per doubling, so that at most 1/16 is lost by rounding; larger ones in buffers, which
// stay backed by memory between two uses. UsableSize() tells the cache the block's true size, so that the cache's
// capacity is that of memory.
//
// Use it for caches of hundreds of MiB and more whose blocks come and go, and to see the cache's memory by itself
// (tarn::pools(), tarn::buffer_pools()). Do not use it for a small cache, nor if tarn is the program's malloc and nothing
// of this is needed. Blocks are part of core dumps: spans pass between the cache and the rest of the program, so
// MADV_DONTDUMP would have to be set and taken back with each of them. (RocksDB's own allocator for that is
// NewJemallocNodumpAllocator.)
//
// Requires: RocksDB 6.0 or later, whose library is built with run-time types (USE_RTTI=1, as Debian's is) unless the program is
// compiled with -fno-rtti. Lifetime: caches hold the object by its shared_ptr; a block that is live when it ends stays, and
// is reported by the leak hook (tarn/process.hpp).
// Thread safety: any thread. Failure: std::bad_alloc, as RocksDB's `new char[]`; RocksDB checks no pointer for null. A pointer
// that is not a live block ends the process with a message.
// Cost: Allocate() and Deallocate() of a block up to 64 KiB as those of an object_pool, some 20 instructions, and a
// look-up in the page map.
#pragma once

#include <rocksdb/memory_allocator.h>

#include <cstddef>

#include "block_store.hpp"

namespace tarn {

class rocksdb_block_memory final : public rocksdb::MemoryAllocator {
 public:
  // `most_idle_bytes`: of buffers above 64 KiB that wait for their next use; 0: an eighth of the memory that the process
  // may use. Throws std::bad_alloc.
  explicit rocksdb_block_memory(std::size_t most_idle_bytes = 0)
      : store_("rocksdb blocks", most_idle_bytes) {}

  [[nodiscard]] const char* Name() const override { return "tarn::rocksdb_block_memory"; }
  void* Allocate(std::size_t bytes) override {
    void* const block = store_.allocate(bytes);
    if (TARN_DETAIL_UNLIKELY(block == nullptr)) detail::throw_bad_alloc();
    return block;
  }
  void Deallocate(void* block) override { store_.deallocate(block); }
  std::size_t UsableSize(void* block, std::size_t bytes) const override {
    return store_.usable_bytes(block, bytes);
  }

  // Gives idle memory back; returns the bytes.
  std::size_t trim() noexcept { return store_.trim(); }
  // Live blocks, and the bytes of all memory that they and free blocks take.
  [[nodiscard]] detail::block_store::figures stats() const noexcept { return store_.stats(); }

 private:
  detail::block_store store_;
};

}  // namespace tarn
