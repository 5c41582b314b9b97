// SPDX-License-Identifier: MIT
// arena_resource: an arena as a std::pmr::memory_resource, for the containers of namespace std::pmr.
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
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <memory_resource>

#include "tarn/arena.hpp"

namespace tarn {
inline namespace TARN_ABI {

inline namespace TARN_POOL_MODE {

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

}  // namespace TARN_POOL_MODE

}  // namespace TARN_ABI
}  // namespace tarn
