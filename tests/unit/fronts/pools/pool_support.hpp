// SPDX-License-Identifier: MIT
// Helpers for the tests of typed pools: objects that detect overlaps, threads that start together, and the statistics
// of pools found by name.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <string_view>
#include <thread>
#include <vector>

#include "tarn/detail/pool_bin.hpp"

#if defined(__has_feature)
#define TARN_TEST_FEATURE(x) __has_feature(x)
#else
#define TARN_TEST_FEATURE(x) 0
#endif

namespace tarn::testing_support {

#if defined(__SANITIZE_THREAD__) || TARN_TEST_FEATURE(thread_sanitizer)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || TARN_TEST_FEATURE(address_sanitizer)
inline constexpr bool under_address_sanitizer = true;
#else
inline constexpr bool under_address_sanitizer = false;
#endif

// An object that stores its number, its address and the inverted number.
struct alignas(8) stamped {
  explicit stamped(std::uint64_t n) : number(n), self(this), again(~n) {}
  stamped(const stamped&) = delete;
  stamped& operator=(const stamped&) = delete;
  // No EXPECT: objects are destroyed after main too.
  ~stamped() {
    if (!is_whole()) std::abort();
    number = again = 0;
  }
  [[nodiscard]] bool is_whole() const { return self == this && again == ~number; }

  std::uint64_t number;
  stamped* self;
  std::uint64_t again;
};

// Runs body(index) in `count` threads, all of which begin at the same time.
template <class Body>
void in_threads(int count, Body body) {
  std::latch begin(count);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&begin, &body, i] {
      begin.arrive_and_wait();
      body(i);
    });
  }
}

struct pool_sum {
  std::uint64_t pools = 0;
  std::uint64_t live = 0;
};

// The sum over all pools whose names contain both strings.
inline pool_sum pools_named(std::string_view part, std::string_view other = "") {
  struct search {
    std::string_view part, other;
    pool_sum sum;
  } s{part, other, {}};
  tarn_pool_visit(
      [](void* context, const char* name, const tarn_pool_stats* figures) {
        auto* const in = static_cast<search*>(context);
        const std::string_view text(name);
        if (text.find(in->part) == text.npos || text.find(in->other) == text.npos) return;
        ++in->sum.pools;
        in->sum.live += figures->live;
      },
      &s);
  return s.sum;
}

// While this object exists, pools that end with live objects are counted here instead of reported.
class leak_notes {
 public:
  leak_notes() : before_(tarn_pool_set_leak_hook(&note)) { leaks = live = 0; }
  ~leak_notes() { tarn_pool_set_leak_hook(before_); }
  leak_notes(const leak_notes&) = delete;
  leak_notes& operator=(const leak_notes&) = delete;

  static inline std::size_t leaks;
  static inline std::size_t live;

 private:
  static void note(const char* /*name*/, std::size_t objects) {
    ++leaks;
    live += objects;
  }
  tarn_pool_leak_hook before_;
};

template <class T>
bool is_aligned(const T* object, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(object) % alignment == 0;
}

}  // namespace tarn::testing_support
