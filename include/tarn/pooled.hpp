// SPDX-License-Identifier: MIT
// pooled<T>: a base that makes `new T` and `delete` use the process-wide pool of T.
//
//     class order : public tarn::pooled<order> { … };
//     std::unique_ptr<order> one = std::make_unique<order>();     // code that creates orders is not changed
//
// Use it for a class whose objects are created by new in many places that are not to be changed. Do not use it for a
// class of which few objects exist at a time, or when the places can be changed: pool_of<T>() shows at the call that a
// pool is used.
//
// What comes from the pool: single objects of T's size and alignment, thus also those of derived classes that add no
// member. All others are allocated as without this base: larger or stricter aligned derived classes by ::operator new,
// arrays by ::operator new[]. A derived class that wants a pool of its own also derives from pooled<derived> and
// selects its operators:
//
//     class special : public order, public tarn::pooled<special> {
//      public:
//       using tarn::pooled<special>::operator new;
//       using tarn::pooled<special>::operator delete;
//     };
//
// Requires: a virtual destructor in a base through which objects are deleted, as always in C++; here operator delete
// also gets the object's size from it: without it, memory of a larger derived class would become a slot of T. The
// compiler cannot see that; checked builds, and those without NDEBUG, end the program with a message. T is the class
// itself: a class that names another one takes that one's pool where the sizes agree. std::make_shared and containers
// do not use a class's operator new: use pool_of<T>().make_shared and pooled_allocator.
// Thread safety: as new and delete; any thread may delete an object that another thread created.
// Failure: the new-handler is called as by ::operator new, then std::bad_alloc; null from the std::nothrow form.
// Cost: that of pool_of<T>(), inlined. Deleting an over-aligned object of a class that is not final takes some ns more,
// to find its pool by the address. The base adds no byte to T, and T may stay an aggregate.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <new>
#include <type_traits>

#include "tarn/object_pool.hpp"

namespace tarn {
inline namespace TARN_ABI {

inline namespace TARN_POOL_MODE {

// T is incomplete where the class is instantiated as T's base, so only the bodies of members may use sizeof(T).
template <class T>
class pooled {
 public:
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size) {
    return size == sizeof(T) ? take() : elsewhere(size);
  }
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size, std::align_val_t alignment) {
    return is_pooled(size, alignment) ? take() : elsewhere(size, alignment);
  }
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size,
                                                             const std::nothrow_t& tag) noexcept {
    return size == sizeof(T) ? try_take() : elsewhere(size, tag);
  }
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size, std::align_val_t alignment,
                                                             const std::nothrow_t& tag) noexcept {
    return is_pooled(size, alignment) ? try_take() : elsewhere(size, alignment, tag);
  }
  // Placement new, which the class's other forms would hide.
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t /*size*/, void* where) noexcept {
    return where;
  }

  // Compilers prefer operator delete without a size where a class has one; so this class has none.
  TARN_DETAIL_INLINE static void operator delete(void* memory, std::size_t size) noexcept {
    if (size != sizeof(T)) return ::operator delete(memory);
    if constexpr (looks_at_deletes()) require_slot(memory);
    give(memory);
  }
  // The forms without a size decide by the address whether the memory is a pool's. They are needed for over-aligned
  // classes, because compilers call only this form when such a constructor throws (without it GCC 12 and Clang 16 call
  // none at all), and after new (std::nothrow).
  static void operator delete(void* memory, std::align_val_t alignment) noexcept {
    if (!std::is_final_v<T> && tarn_pool_of(memory) == nullptr) return ::operator delete(memory, alignment);
    give(memory);
  }
  static void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept {
    if (tarn_pool_of(memory) == nullptr) return ::operator delete(memory);
    give(memory);
  }
  static void operator delete(void* memory, std::align_val_t alignment,
                              const std::nothrow_t& /*tag*/) noexcept {
    operator delete(memory, alignment);
  }
  // Inlined also without optimisation; otherwise GCC warns of a deallocation of memory that was not allocated.
  TARN_DETAIL_INLINE static void operator delete(void* /*memory*/, void* /*where*/) noexcept {}

 private:
  // The forms without an alignment need no such check: the size of a derived class that is as large as T and not
  // over-aligned is a multiple of its alignment, so T's slots have that alignment (tarn_pool_request).
  static constexpr bool is_pooled(std::size_t size, std::align_val_t alignment) {
    return size == sizeof(T) && static_cast<std::size_t>(alignment) <= alignof(T);
  }

  // Where another class may be behind a pointer to T, and the size that operator delete gets would not tell.
  static constexpr bool looks_at_deletes() {
#if defined(NDEBUG) && !TARN_CHECKED_POOLS
    return false;
#else
    return !std::is_final_v<T> && !std::has_virtual_destructor_v<T>;
#endif
  }
  __attribute__((noinline)) static void require_slot(const void* memory) noexcept {
    if (memory == nullptr || tarn_pool_of(memory) != nullptr) return;
    tarn_pool_check(nullptr, memory,
                    "delete of a derived class through its base, which has no virtual destructor: delete");
  }

  // Not inlined: a compiler that sees ::operator new here, and the class's operator delete where a constructor throws,
  // warns of mismatched functions.
  template <class... Form>
  __attribute__((noinline)) static void* elsewhere(std::size_t size, const Form&... form) {
    return ::operator new(size, form...);
  }

  TARN_DETAIL_INLINE static void* try_take() noexcept {
    static_assert(std::is_base_of_v<pooled, T>, "pooled<T> is for T's bases: class T : public pooled<T>");
    return pool_of<T>().try_allocate();
  }
  TARN_DETAIL_INLINE static void* take() {
    void* const slot = try_take();
    return TARN_DETAIL_LIKELY(slot != nullptr) ? slot : take_with_handler();
  }
  TARN_DETAIL_COLD static void* take_with_handler() {
    for (;;) {
      const std::new_handler handler = std::get_new_handler();
      if (handler == nullptr) detail::throw_bad_alloc();
      handler();
      if (void* const slot = try_take()) return slot;
    }
  }
  TARN_DETAIL_INLINE static void give(void* memory) noexcept {
    if (memory != nullptr) pool_of<T>().deallocate(static_cast<T*>(memory));
  }
};

// Of a type that cannot be held: refused, with the reason.
template <class T>
  requires(!detail::is_held<T>)
class pooled<T> : detail::refused_type<T> {};

}  // namespace TARN_POOL_MODE

}  // namespace TARN_ABI
}  // namespace tarn
