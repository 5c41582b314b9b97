// SPDX-License-Identifier: MIT
// Structures of the C headers that grow at their end: a program may have been compiled with a shorter or a longer version than
// the library's.
//
// Thread safety: none needed; the caller owns both structures.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tarn {

// What a program passes: `size` bytes of it are the program's, and the rest of the result is as in `standard`.
template <class Options>
Options known_options(const Options* given, Options standard) {
  if (given != nullptr) std::memcpy(&standard, given, std::min(given->size, sizeof standard));
  return standard;
}

// Writes the first `size` bytes of the figures; what the library does not know becomes zero.
template <class Stats>
void put_known(const Stats& all, Stats* out, std::size_t size) {
  const std::size_t known = std::min(size, sizeof all);
  std::memcpy(out, &all, known);
  std::memset(reinterpret_cast<char*>(out) + known, 0, size - known);
}

}  // namespace tarn
