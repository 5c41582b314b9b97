// SPDX-License-Identifier: MIT
// pooled<T>: a base that makes `new T` and `delete` use the process-wide pool of T.
//
//     class order : public tarn::pooled<order> { … };
//     std::unique_ptr<order> one = std::make_unique<order>();     // code that makes orders stays as it is
//
// Use it for a class that a whole program makes by new, when changing all those places is not wanted. Do not for a
// class of which few exist at a time, or when the places can be changed: pool_of<T>() says at the call what happens.
//
// What comes from the pool: single objects of exactly T's size and alignment, so also those of derived classes that
// add nothing. Everything else goes where it would have gone without this base: larger or stricter aligned derived
// classes to ::operator new, arrays to ::operator new[]. A derived class with a pool of its own derives from
// pooled<derived> as well and says which of the two it means:
//
//     class special : public order, public tarn::pooled<special> {
//      public:
//       using tarn::pooled<special>::operator new;
//       using tarn::pooled<special>::operator delete;
//     };
//
// Requires: deleting through a pointer to a base needs a virtual destructor there, as always; it also tells the size.
// std::make_shared and containers do not use a class's operator new: pool_of<T>().make_shared and pooled_allocator do.
// Thread safety: as new and delete; any thread may delete what another one made.
// Failure: the new-handler is called as by ::operator new, then std::bad_alloc; null from the std::nothrow form.
// Cost: that of pool_of<T>(), inlined; to delete an over-aligned object of a class that is not final, some ns more to
// find its pool by the address. The base adds no byte to T and leaves an aggregate an aggregate.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

#include "tarn/object_pool.hpp"

namespace tarn {

inline namespace TARN_POOL_MODE {

// T is incomplete where the class is named, so only the members' bodies may look at it.
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
  // A class with operators of its own hides this form.
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t /*size*/, void* where) noexcept {
    return where;
  }

  // Where there is a form without a size, the compiler prefers it: so none here.
  TARN_DETAIL_INLINE static void operator delete(void* memory, std::size_t size) noexcept {
    if (size != sizeof(T)) return ::operator delete(memory);
    give(memory);
  }
  // Where nobody tells the size, the address does. That is so for over-aligned classes, since compilers call no other
  // form when such a constructor throws (GCC 12 and Clang 16 would call none at all), and after new (std::nothrow).
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
  // Inlined also without optimisation, or GCC warns of a call on memory that nobody allocated.
  TARN_DETAIL_INLINE static void operator delete(void* /*memory*/, void* /*where*/) noexcept {}

 private:
  // The forms without an alignment need not ask: a derived class of T's size that is aligned to more than T, but not
  // over-aligned, has a size that gives its slots that alignment (tarn_pool_request).
  static constexpr bool is_pooled(std::size_t size, std::align_val_t alignment) {
    return size == sizeof(T) && static_cast<std::size_t>(alignment) <= alignof(T);
  }

  // Not inlined: a compiler that sees ::operator new here, and where a constructor throws the operator delete above,
  // takes them for a mismatch.
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

}  // namespace TARN_POOL_MODE

}  // namespace tarn
