// SPDX-License-Identifier: MIT
// variants.hpp: the ways in which a scene gets its objects, what the small objects are, and how a figure is taken.
// Thread safety: none needed; each thread calls with its own objects.
#pragma once

#include <tarn/recycler.hpp>

#include "../pools/contender.hpp"

namespace bench {

// A new object each time.
struct fresh {
  static constexpr const char* name = "fresh";
};
// One object that its user keeps.
struct by_hand {
  static constexpr const char* name = "by-hand";
};
// A recycler, by its handles.
struct recycled {
  static constexpr const char* name = "recycled";
};
// The same by take() and give_back().
struct recycled_bare {
  static constexpr const char* name = "recycled-bare";
};

// 64 bytes. One word is written by each user, and reset before the object goes back.
struct message {
  message() {}  // NOLINT(modernize-use-equals-default): `= default` would let value-initialisation clear it
  void clear() noexcept { words[0] = 0; }
  std::uint64_t words[8];
};
static_assert(sizeof(message) == 64);

inline constexpr double seconds_per_figure = 0.4;

inline double limit_of(const scene_arguments& arguments) {
  return seconds_per_figure * static_cast<double>(arguments.scale) / 1000;
}

struct timing {
  double seconds;
  std::size_t calls;
};

// The mean over many calls, after one that does not count. A call should take
// some microseconds: it pays for a look at the clock.
template <class work_type>
timing time_calls(double limit, work_type work) {
  work();
  timing result{0, 0};
  const stopwatch clock;
  do {
    work();
    ++result.calls;
    result.seconds = clock.seconds();
  } while (result.seconds < limit);
  return result;
}

inline double nanoseconds(double seconds, std::size_t operations) {
  return seconds * 1e9 / static_cast<double>(operations);
}

}  // namespace bench
