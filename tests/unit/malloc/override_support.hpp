// SPDX-License-Identifier: MIT
// Helpers for the tests of the names that libtarn replaces.
#pragma once

#include <cstddef>

#include "base/units.hpp"

namespace tarn::testing_support {

inline constexpr std::size_t large_size = 3 * mib;

// Hides a size from the compiler, which warns of sizes that are too large.
inline std::size_t hidden(std::size_t n) {
  volatile std::size_t v = n;
  return v;
}

}  // namespace tarn::testing_support
