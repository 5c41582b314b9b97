// SPDX-License-Identifier: MIT
// pool_front: the members that pool_of<T>(), object_pool and local_pool share; and what they, and resources over pools, call.
//
// Thread safety: that of the pool.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <type_traits>
#include <utility>

#include "tarn/detail/config.hpp"
#include "tarn/detail/construct.hpp"
#include "tarn/detail/pool_bin.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN

TARN_POOLS_BEGIN

template <class T>
class shared_pool;

TARN_POOLS_END

namespace detail {

TARN_POOLS_BEGIN

// Takes a free slot from the thread's bin, else from the library; null when there is no memory. give_slot() gives a
// slot back the same way. `bin` is where the thread keeps the pointer to its bin.
template <class T>
TARN_DETAIL_INLINE void* take_slot(tarn_pool* pool, tarn_pool_bin** bin) noexcept {
  if constexpr (TARN_CHECKED_POOLS != 0) return tarn_pool_checked_allocate(pool, bin);
  void* slot = pop(*bin);
  if (TARN_DETAIL_UNLIKELY(slot == nullptr)) {
    slot = tarn_pool_allocate_slow(pool, bin);
    if (slot == nullptr) return nullptr;
  }
  unpoison(slot, sizeof(T));
  return slot;
}
template <class T>
TARN_DETAIL_INLINE void give_slot(tarn_pool* pool, tarn_pool_bin** bin, void* slot) noexcept {
  if constexpr (TARN_CHECKED_POOLS != 0) return tarn_pool_checked_deallocate(pool, bin, slot);
  poison(slot, sizeof(T));
  if (TARN_DETAIL_UNLIKELY(!push(*bin, slot))) tarn_pool_deallocate_slow(pool, bin, slot);
}

inline tarn_pool_stats stats_of(const tarn_pool* pool) noexcept {
  tarn_pool_stats stats{};
  if (pool != nullptr) tarn_pool_get_stats(pool, &stats, sizeof stats);
  return stats;
}
// Adds the figures of a further pool.
inline void add(tarn_pool_stats& sum, const tarn_pool_stats& more) noexcept {
  sum.live += more.live;
  sum.peak += more.peak;
  sum.bytes += more.bytes;
  sum.cached += more.cached;
  sum.hits += more.hits;
  sum.refills += more.refills;
}

// The members that all pools share (CRTP). Requires of Self: void* take(), which returns a slot of T's size and
// alignment, or null when there is no memory; void give(void*); and in checked builds void check(const T*).
template <class Self, class T>
class pool_front {
 public:
  using value_type = T;

  // Memory for one T; deallocate() frees it. No constructor or destructor runs.
  [[nodiscard]] TARN_DETAIL_INLINE T* allocate() const {
    T* const slot = try_allocate();
    if (TARN_DETAIL_UNLIKELY(slot == nullptr)) throw_bad_alloc();
    return slot;
  }
  [[nodiscard]] TARN_DETAIL_INLINE T* try_allocate() const noexcept {
    if constexpr (require_complete<T>()) return static_cast<T*>(self().take());
    return nullptr;
  }
  // Requires: from allocate() of this pool, and not freed since.
  TARN_DETAIL_INLINE void deallocate(T* memory) const noexcept {
    if constexpr (require_complete<T>()) self().give(memory);
  }

  // A new T. Throws std::bad_alloc, and what the constructor throws; in that case the slot is back in the pool.
  template <class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* create(Args&&... args) const {
    if constexpr (require_creatable<T>()) return construct(allocate(), std::forward<Args>(args)...);
    return nullptr;
  }
  // Null when there is no memory. Throws what the constructor throws.
  template <class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* try_create(Args&&... args) const {
    if constexpr (require_creatable<T>()) {
      if (T* const memory = try_allocate()) return construct(memory, std::forward<Args>(args)...);
    }
    return nullptr;
  }
  // As create() and try_create() without arguments, but T is default-initialised, as by
  // std::make_unique_for_overwrite: members without constructor and initialiser are written by the caller, not by the
  // pool. Cost: for such a T that of allocate(), whatever its size.
  [[nodiscard]] TARN_DETAIL_INLINE T* create_for_overwrite() const { return create(for_overwrite{}); }
  [[nodiscard]] TARN_DETAIL_INLINE T* try_create_for_overwrite() const { return try_create(for_overwrite{}); }
  // Destroys the object and frees its slot. Null is allowed. Requires: from a create function of this pool, and of dynamic type
  // T (the pool would free a slot of another size through a pointer to a base).
  TARN_DETAIL_INLINE void destroy(T* object) const noexcept {
    if constexpr (require_complete<T>()) {
      if (object == nullptr) return;
      if constexpr (TARN_CHECKED_POOLS != 0) self().check(object);
      object->~T();
      deallocate(object);
    }
  }
  template <class Derived>
    requires(!std::is_same_v<Derived, T> && std::is_convertible_v<Derived*, T*>)
  void destroy(Derived* object) const = delete;  // give it to the pool of its own class: pool_of<Derived>()

 private:
  [[nodiscard]] const Self& self() const { return static_cast<const Self&>(*this); }

  template <class... Args>
  TARN_DETAIL_INLINE T* construct(T* memory, Args&&... args) const {
    if constexpr (noexcept(detail::construct<T>(memory, std::forward<Args>(args)...))) {
      return detail::construct<T>(memory, std::forward<Args>(args)...);
    } else {
      struct slot_guard {
        const pool_front* pool;
        T* slot;
        ~slot_guard() {
          if (slot != nullptr) pool->deallocate(slot);
        }
      } guard{this, memory};
      T* const object = detail::construct<T>(memory, std::forward<Args>(args)...);
      guard.slot = nullptr;
      return object;
    }
  }
};

// What make_shared passes to std::allocate_shared, which rebinds it to its own type of object and control block and
// allocates one of that.
template <class T>
struct pair_allocator {
  using value_type = T;
  pair_allocator() = default;
  template <class Other>
  pair_allocator(const pair_allocator<Other>& /*other*/) noexcept {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t /*one*/) { return shared_pool<T>().allocate(); }
  void deallocate(T* memory, std::size_t /*one*/) noexcept { shared_pool<T>().deallocate(memory); }
  friend bool operator==(pair_allocator, pair_allocator) noexcept { return true; }
};

// An empty object, so that both `auto pool` and `auto& pool` can hold what pool_of() returns.
template <class T>
inline constexpr shared_pool<T> the_pool{};

TARN_POOLS_END

}  // namespace detail

TARN_NAMESPACE_END
}  // namespace tarn
