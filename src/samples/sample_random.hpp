// SPDX-License-Identifier: MIT
// sample_random: random numbers for the choice of samples.
//
// Thread safety: any thread. Two concurrent callers may get the same number.
#pragma once

#include <sys/auxv.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/random.hpp"

namespace tarn {

class sample_random {
 public:
  constexpr sample_random() = default;

  std::uint64_t next() {
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    if (state == 0) state = seed();
    const std::uint64_t random = next_random(state);
    state_.store(state, std::memory_order_relaxed);
    return random;
  }

 private:
  // From the random bytes that the kernel gives each process (AT_RANDOM); no system call.
  static std::uint64_t seed() {
    std::uint64_t out = 1;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(getauxval(AT_RANDOM));
    if (bytes != nullptr) std::memcpy(&out, bytes + 8, sizeof out);
    return out;
  }

  std::atomic<std::uint64_t> state_{0};
};

}  // namespace tarn
