// SPDX-License-Identifier: MIT
// Whether this is the hardened build (libtarn-hardened.so, docs/design/0015), and what that build adds to each block.
// One macro for all files decides at compile time, so that the ordinary build contains no instruction of it.
#pragma once

#include <cstddef>

#include "base/units.hpp"

#ifndef TARN_HARDENED
#define TARN_HARDENED 0
#endif

namespace tarn {

inline constexpr bool hardened_build = TARN_HARDENED != 0;

// At the end of each object of a size class.
inline constexpr std::size_t canary_bytes = 8;

// The guard behind each large block: the least number of tarn's pages that always contain a whole page of the system,
// at whichever page they begin.
constexpr std::size_t guard_pages_for(std::size_t system_page_size) {
  return system_page_size <= page_size ? 1 : pages_for(2 * system_page_size - page_size);
}

}  // namespace tarn
