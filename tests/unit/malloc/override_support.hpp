// SPDX-License-Identifier: MIT
// What the tests of libtarn's names share.
#pragma once

#include <cstddef>

#include "base/units.hpp"

namespace tarn::testing_support {

inline constexpr std::size_t large_size = 3 * mib;

// No size is too large for the compiler to see.
inline std::size_t hidden(std::size_t n) {
  volatile std::size_t v = n;
  return v;
}

}  // namespace tarn::testing_support
