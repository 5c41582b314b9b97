// SPDX-License-Identifier: MIT
// all_bytes_are: whether a range holds one value throughout. By memcmp, because tests are compiled without optimisation
// under sanitizers, where a loop over the bytes takes most of a test's time.
#pragma once

#include <cstddef>
#include <cstring>

namespace tarn::testing_support {

inline bool all_bytes_are(const void* start, std::size_t bytes, int value) {
  const auto* const at = static_cast<const unsigned char*>(start);
  return bytes == 0 ||
         (at[0] == static_cast<unsigned char>(value) && std::memcmp(at, at + 1, bytes - 1) == 0);
}

}  // namespace tarn::testing_support
