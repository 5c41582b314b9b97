// SPDX-License-Identifier: MIT
// rounds(n): n steps of a stress test, a quarter under sanitizers, which are slow, and ten times as many with
// STRESS_LONG=1. in_threads: runs a function in several threads and waits for them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/compiler.hpp"

namespace tarn::testing_support {

inline int rounds(int ordinary) {
  const char* const longer = std::getenv("STRESS_LONG");
  const int factor = longer != nullptr && *longer == '1' ? 10 : 1;
  return (TARN_TSAN || TARN_ASAN ? ordinary / 4 : ordinary) * factor;
}

// The operations of each of `threads` threads: STRESS_OPERATIONS over all of them, or else rounds(ordinary) each.
inline std::uint64_t operations(unsigned threads, std::uint64_t ordinary) {
  const char* const asked = std::getenv("STRESS_OPERATIONS");
  if (asked != nullptr) return std::strtoull(asked, nullptr, 10) / threads;
  return static_cast<std::uint64_t>(rounds(static_cast<int>(ordinary)));
}

template <class Body>
void in_threads(unsigned count, Body body) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) threads.emplace_back(body, t);
  for (std::thread& t : threads) t.join();
}

}  // namespace tarn::testing_support
