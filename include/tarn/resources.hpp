// SPDX-License-Identifier: MIT
// Memory resources for the containers of namespace std::pmr: pool_resource and local_pool_resource over pools by size,
// arena_resource over an arena, buffer_resource over a buffer pool.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <memory_resource>
#include <mutex>

#include "tarn/arena.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/detail/slot_pools.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN

TARN_POOLS_BEGIN

// std::pmr memory resources over pools, one per slot size.
//
//     tarn::local_pool_resource memory;
//     std::pmr::map<int, std::pmr::string> names(&memory);
//
// They replace std::pmr::synchronized_pool_resource and unsynchronized_pool_resource: pool_resource may be used by all
// threads, local_pool_resource by one at a time. Use them when containers of many types share memory that ends
// together, or when the allocator must not be part of the container's type. Do not use them for one type of node:
// pooled_allocator needs no virtual call; nor for containers that are only built and dropped: an arena is cheaper.
//
// Where memory comes from: a request of at most 4 KiB with an alignment of at most 4 KiB comes from a pool of slots of
// its size; slot sizes are 8 bytes apart up to 128, then eight per doubling, so that rounding wastes at most 7 bytes or
// 1/8. The spans of these pools come from tarn's page heap, not from the upstream resource. Larger requests, and those
// with a stricter alignment, go to the upstream resource: the one given, else std::pmr::get_default_resource() at the
// time of construction.
// Lifetime: release() and the destructor free all memory, that of live blocks too. Blocks must not outlive the
// resource.
// Thread safety: pool_resource: all members except release() and the destructor may be called by any thread.
// local_pool_resource: none; calls must not overlap.
// Failure: std::bad_alloc, and what the upstream resource throws.
// Cost of a hit: a virtual call, one table read (three above 1 KiB or alignment 16), and a pool's five instructions;
// pool_resource also looks up the thread's bin. Memory: per slot size in use, a span of at least 8 KiB, and per thread
// that uses it two magazines of free slots.
// (Geometric size classes, as in jemalloc; magazines and spans: tarn/pool.hpp.)
//
// For all threads; any of them may free a block.
class pool_resource : public detail::slot_resource<detail::shared_slot_pool, std::mutex> {
 public:
  // Requires: upstream is not null and outlives the resource. Takes no memory yet.
  pool_resource() noexcept : pool_resource(std::pmr::get_default_resource()) {}
  explicit pool_resource(std::pmr::memory_resource* upstream) noexcept : slot_resource(upstream) {}
};

// For one thread at a time. The resource and its blocks may move to another thread as a whole.
class local_pool_resource : public detail::slot_resource<detail::local_slot_pool, detail::no_mutex> {
 public:
  // Requires: upstream is not null and outlives the resource. Takes no memory yet.
  local_pool_resource() noexcept : local_pool_resource(std::pmr::get_default_resource()) {}
  explicit local_pool_resource(std::pmr::memory_resource* upstream) noexcept : slot_resource(upstream) {}
};

// An arena as a std::pmr::memory_resource, for the containers of namespace std::pmr.
//
// Use it for containers that are built up and dropped with the rest of an arena. Do not use it for containers that
// shrink and grow for a long time: memory that a container deallocates is free again only if it is the arena's newest
// allocation (a temporary string, the node of the last element); all other memory stays taken until the arena's reset.
// Call reserve() on vectors that grow, or each outgrown buffer stays. Containers that are created in the arena with
// create_without_destructor() need no destruction.
//
// Thread safety: none, as the arena. Failure: std::bad_alloc.
// Cost: a virtual call and some ten instructions.
// Two resources are equal only if they are the same object, so keep one per arena: containers with different resources
// copy their elements when they are moved or swapped. Requires: the arena is not moved, and outlives the resource.
class arena_resource final : public std::pmr::memory_resource {
 public:
  explicit arena_resource(arena& memory) noexcept : arena_(&memory) {}
  arena_resource(const arena_resource&) = delete;
  arena_resource& operator=(const arena_resource&) = delete;

  [[nodiscard]] arena& upstream() const noexcept { return *arena_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return arena_->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t /*alignment*/) override {
    arena_->deallocate(memory, bytes);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  arena* arena_;
};

// For std::pmr: blocks of 64 KiB and more come from a pool; smaller ones, and those aligned to more than a page, from
// `upstream`. Containers of std::pmr value-initialise (zero) the elements that resize() adds.
class buffer_resource : public std::pmr::memory_resource {
 public:
  // From the process-wide pool. The constructors require that upstream is not null and outlives the resource.
  buffer_resource() noexcept : buffer_resource(std::pmr::get_default_resource()) {}
  explicit buffer_resource(std::pmr::memory_resource* upstream) noexcept : upstream_(upstream) {}
  explicit buffer_resource(const buffer_pool& pool,
                           std::pmr::memory_resource* upstream = std::pmr::get_default_resource()) noexcept
      : pool_(pool.handle()), upstream_(upstream) {}

  [[nodiscard]] std::pmr::memory_resource* upstream_resource() const noexcept { return upstream_; }

 private:
  static bool is_large(std::size_t bytes, std::size_t alignment) {
    return bytes >= least_buffer_bytes && alignment <= 4096;
  }
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return is_large(bytes, alignment) ? detail::take_buffer(pool_, bytes)
                                      : upstream_->allocate(bytes, alignment);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    if (is_large(bytes, alignment)) return tarn_buffer_give_back(nullptr, block);
    upstream_->deallocate(block, bytes, alignment);
  }
  // Equal: blocks of one may be freed by the other, as both use the same pool and equal upstream resources.
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
#if defined(__cpp_rtti)
    const auto* const same = dynamic_cast<const buffer_resource*>(&other);
    return same != nullptr && pool_ == same->pool_ && *upstream_ == *same->upstream_;
#else
    return this == &other;
#endif
  }

  tarn_buffer_pool* pool_ = nullptr;
  std::pmr::memory_resource* upstream_;
};

TARN_POOLS_END

TARN_NAMESPACE_END
}  // namespace tarn
