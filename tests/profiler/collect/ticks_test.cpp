// SPDX-License-Identifier: MIT
// Conversion between the recorder's ticks and nanoseconds.
#include "profiler/collect/ticks.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(ticks, the_system_clocks_ticks_are_16_ns) {
  const tick_clock clock(tick_source::system_clock);
  EXPECT_EQ(clock.shift(), 4U);
  EXPECT_NEAR(clock.duration_ns(1000000), 1e6, 1e3);
}

TEST(ticks, a_time_comes_back_to_within_a_tick) {
  for (const tick_source source : {tick_source::system_clock, best_tick_source()}) {
    tick_clock clock(source);
    clock.learn();
    const std::uint64_t now = raw_clock_ns();
    const double tick_ns = clock.duration_ns(std::uint64_t{1} << clock.shift());
    for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{1000}, std::int64_t{-1000000},
                                      std::int64_t{60'000'000'000}, std::int64_t{-60'000'000'000}}) {
      const std::uint64_t time = now + static_cast<std::uint64_t>(offset);
      EXPECT_NEAR(static_cast<double>(static_cast<std::int64_t>(clock.to_ns(clock.from_ns(time)) - time)), 0,
                  2 * tick_ns + 2)
          << offset;
    }
  }
}

TEST(ticks, what_is_read_now_is_now) {
  tick_clock clock(best_tick_source());
  clock.learn();
  const std::uint64_t before = raw_clock_ns();
  const std::uint64_t read = clock.to_ns(clock.now());
  const std::uint64_t after = raw_clock_ns();
  // Both clocks have run for 20 ms; their ratio is known to within a part in 10,000.
  EXPECT_GE(read + 10000, before);
  EXPECT_LE(read, after + 10000);
}

}  // namespace
}  // namespace tarn::profiler
