// SPDX-License-Identifier: MIT
// buffer_allocator<T>: a standard allocator for large arrays, whose memory comes from a buffer pool, and
// buffer_resource, the same for containers of std::pmr.
//
//     std::vector<std::byte, tarn::buffer_allocator<std::byte>> image;
//     image.resize(32 << 20);              // a kept buffer as it is: no page fault, and nothing is written
//     image.resize(0), image.shrink_to_fit();   // the buffer goes back to the pool
//
// Elements that are constructed without arguments are default-initialised: resize(n) of bytes or floats writes nothing,
// and the elements' values are indeterminate until they are written. resize(n, value) writes all elements, as with
// std::allocator. For zeroes, pass the value, or use a zeroed pool.
//
// Where memory comes from: arrays of 64 KiB and more from the given pool, else from the process-wide one (all options
// at their defaults; it is never destroyed, so containers of any storage duration may use it); smaller ones from
// operator new. A moved container takes its allocator along; two allocators are equal if their pools are the same.
// Thread safety: as buffer_pool. Cost: as buffer_pool::get. Failure: std::bad_alloc; std::bad_array_new_length if the
// size overflows. Do not use it for std::deque, list or map, which never ask for 64 KiB at once; nor for vectors that
// grow by push_back to an unknown size: each growth takes a buffer and copies.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

#include "tarn/buffer_pool.hpp"
#include "tarn/detail/construct.hpp"

namespace tarn {
inline namespace TARN_ABI {

inline namespace TARN_POOL_MODE {

// Smaller requests do not go to a buffer pool.
inline constexpr std::size_t least_buffer_bytes = 65536;

}  // namespace TARN_POOL_MODE

namespace detail {

inline namespace TARN_POOL_MODE {

// `pool`, or the process-wide pool if it is null.
inline tarn_buffer_pool* buffer_pool_or_shared(tarn_buffer_pool* pool) {
  if (pool == nullptr) pool = tarn_buffer_pool_shared();
  if (pool == nullptr) throw_bad_alloc();
  return pool;
}
inline void* take_buffer(tarn_buffer_pool* pool, std::size_t bytes) {
  std::size_t capacity = 0;
  void* const memory = tarn_buffer_get(buffer_pool_or_shared(pool), bytes, &capacity);
  if (memory == nullptr) throw_bad_alloc();
  return memory;
}

}  // namespace TARN_POOL_MODE

}  // namespace detail

inline namespace TARN_POOL_MODE {

template <class T>
class buffer_allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  // From the process-wide pool.
  buffer_allocator() noexcept = default;
  // Requires: no allocation after the pool's end. Memory may be freed after it.
  explicit buffer_allocator(const buffer_pool& pool) noexcept : pool_(pool.handle()) {}
  template <class U>
  buffer_allocator(const buffer_allocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
      : pool_(other.handle()) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    static_assert(detail::complete<T>,
                  "tarn: T is only declared here: include its definition before memory is taken");
    // Every pool aligns its buffers at least to this. (Asked here, as T may be incomplete where the class is named.)
    static_assert(alignof(T) <= 4096,
                  "buffer_allocator: T is aligned to more than a page; use a pool of its own");
    if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) throw_bad_length();
    const std::size_t bytes = count * sizeof(T);
    if (bytes >= least_buffer_bytes) return static_cast<T*>(detail::take_buffer(pool_, bytes));
    return static_cast<T*>(::operator new(bytes, std::align_val_t{alignof(T)}));
  }
  // Requires: from allocate(count) of an equal allocator.
  void deallocate(T* memory, std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(T);
    if (bytes >= least_buffer_bytes) return tarn_buffer_give(nullptr, memory);
#if defined(__cpp_sized_deallocation)
    ::operator delete(memory, bytes, std::align_val_t{alignof(T)});
#else
    ::operator delete(memory, std::align_val_t{alignof(T)});
#endif
  }

  // Default-initialises: a trivial type's value is not written.
  template <class U>
  void construct(U* object) noexcept(std::is_nothrow_default_constructible_v<U>) {
    ::new (static_cast<void*>(object)) U;
  }
  template <class U, class... Args>
  void construct(U* object, Args&&... args) {
    ::new (static_cast<void*>(object)) U(std::forward<Args>(args)...);
  }

  [[nodiscard]] tarn_buffer_pool* handle() const noexcept { return pool_; }

  template <class U>
  friend bool operator==(const buffer_allocator& a, const buffer_allocator<U>& b) noexcept {
    return a.handle() == b.handle();
  }

 private:
  [[noreturn]] TARN_DETAIL_COLD static void throw_bad_length() {
#if defined(__cpp_exceptions)
    throw std::bad_array_new_length();
#else
    std::abort();
#endif
  }

  tarn_buffer_pool* pool_ = nullptr;
};

template <class T>
  requires(!detail::is_allocated<T>)
class buffer_allocator<T> : detail::refused_element<T> {};

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
    if (is_large(bytes, alignment)) return tarn_buffer_give(nullptr, block);
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

}  // namespace TARN_POOL_MODE

}  // namespace TARN_ABI
}  // namespace tarn
