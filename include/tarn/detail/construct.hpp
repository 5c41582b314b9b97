// SPDX-License-Identifier: MIT
// construct: an object in given memory, as pools and arenas make them.
#pragma once

#include "tarn/detail/abi.hpp"

#include <new>
#include <type_traits>
#include <utility>

#include "tarn/detail/config.hpp"

namespace tarn {
inline namespace TARN_ABI {
namespace detail {

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
}  // namespace TARN_ABI
}  // namespace tarn
