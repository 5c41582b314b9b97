// SPDX-License-Identifier: MIT
// construct: an object in given memory, as pools and arenas make them; and of which types they can hold objects.
#pragma once

#include "tarn/detail/abi.hpp"

#include <new>
#include <type_traits>
#include <utility>

#include "tarn/detail/config.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

// Where T is a reference, an array and so on, no member of a front can be declared. Each front has a specialisation for such
// types, which has no members and this base, so that compilers say what is wrong and not what follows from it.
template <class T>
inline constexpr bool is_held =
    std::is_object_v<T> && !std::is_array_v<T> && std::is_same_v<T, std::remove_cv_t<T>>;
template <class T>
struct refused_type {
  static_assert(
      is_held<T>,
      "tarn: T must be the type of whole objects, not a reference, an array, const, volatile, void or a "
      "function: write the plain type, as in pool_of<node>(); for an array std::array");
};
// Allocators: a container may name them with void, and hold arrays.
template <class T>
inline constexpr bool is_allocated = std::is_void_v<T> || is_held<std::remove_all_extents_t<T>>;
template <class T>
struct refused_element {
  static_assert(
      is_allocated<T>,
      "tarn: T must be the type of a container's elements, not a reference, const, volatile or a function: "
      "write the plain type");
};

template <class T>
concept complete = requires { sizeof(T); };
// What can be said of T only where it is used. Both are instantiated once for each T, so that compilers say it once; and a
// function that asks by `if constexpr` is not compiled for a T that is refused, so that no other errors follow.
template <class T>
constexpr bool require_complete() {
  constexpr bool defined = complete<T>;  // a name, or compilers explain the concept, too
  static_assert(defined, "tarn: T is only declared here: include its definition before it is used");
  return defined;
}
template <class T>
constexpr bool require_creatable() {
  if constexpr (!require_complete<T>()) {
    return false;
  } else {
    constexpr bool concrete = !std::is_abstract_v<T>;
    static_assert(concrete,
                  "tarn: T is abstract, so there are no objects of it: make them in the pool of a class that "
                  "derives from it");
    return concrete;
  }
}

// The argument that stands for default-initialisation: `new T` in place of `new T(arguments)`.
struct for_overwrite {};

template <class T, class... Args>
TARN_DETAIL_INLINE T* construct(void* memory, Args&&... args) noexcept(
    std::is_same_v<void(for_overwrite), void(std::remove_cvref_t<Args>...)>
        ? std::is_nothrow_default_constructible_v<T>
        : std::is_nothrow_constructible_v<T, Args...>) {
  if constexpr (std::is_same_v<void(for_overwrite), void(std::remove_cvref_t<Args>...)>) {
    return ::new (memory) T;
  } else {
    return ::new (memory) T(std::forward<Args>(args)...);
  }
}

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
