// SPDX-License-Identifier: MIT
// program: what the programs of this folder share, in addition to the header of the guarantee programs: an object that
// detects when it was overwritten, and constants for the sanitizers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../guarantees/check.hpp"
#include "tarn/pool.hpp"
#include "tarn/process.hpp"

#if defined(__has_feature)
#define TARN_TEST_FEATURE(x) __has_feature(x)
#else
#define TARN_TEST_FEATURE(x) 0
#endif

namespace pools_test {

using guarantee::fail;
using guarantee::mib;

#if defined(__SANITIZE_THREAD__) || TARN_TEST_FEATURE(thread_sanitizer)
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || TARN_TEST_FEATURE(address_sanitizer)
inline constexpr bool under_asan = true;
#else
inline constexpr bool under_asan = false;
#endif
// False under sanitizers, whose own memory and page faults would be measured.
inline constexpr bool measurable = !under_tsan && !under_asan;
inline constexpr int slowdown = under_tsan ? 10 : (under_asan ? 4 : 1);

// Of the calling thread: the background thread's first steps take some, too.
inline long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// An object that stores its address, its number and the inverted number, at both ends.
struct order {
  explicit order(std::uint64_t n) : number(n), self(this), again(~n) {}
  order(const order&) = delete;
  order& operator=(const order&) = delete;
  ~order() {
    check();
    again = 0;
  }
  void check() const {
    TARN_CHECK(self == this && again == ~number, "an object of a pool at %p was overwritten",
               static_cast<const void*>(this));
  }

  std::uint64_t number;
  order* self;
  std::uint64_t padding[5] = {};
  std::uint64_t again;
};
static_assert(sizeof(order) == 64);

}  // namespace pools_test
