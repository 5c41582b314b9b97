// SPDX-License-Identifier: MIT
// Conversion between the recorder's ticks and nanoseconds.
#include "profiler/proc/ticks.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(ticks, the_system_clocks_ticks_are_16_ns) {
  const tick_clock clock(tick_source::system_clock);
  EXPECT_EQ(clock.shift(), 4U);
  EXPECT_NEAR(clock.duration_ns(1000000), 1e6, 1e3);
}

TEST(ticks, ticks_from_a_minute_before_to_a_minute_after_have_their_time) {
  for (const tick_source source : {tick_source::system_clock, best_tick_source()}) {
    tick_clock clock(source);
    clock.learn();
    const std::uint64_t now = read_ticks(source) >> clock.shift();
    const double tick_ns = clock.duration_ns(std::uint64_t{1} << clock.shift());
    for (const std::int64_t ns : {0, 1000, -1000000}) {
      for (const std::int64_t minutes : {0, 1, -1}) {
        const auto ticks =
            static_cast<std::int64_t>(static_cast<double>(ns + minutes * 60'000'000'000) / tick_ns);
        const std::uint64_t then = clock.to_ns(now + static_cast<std::uint64_t>(ticks));
        EXPECT_NEAR(static_cast<double>(static_cast<std::int64_t>(then - clock.to_ns(now))),
                    static_cast<double>(ticks) * tick_ns, 2 * tick_ns + 2);
      }
    }
  }
}

TEST(ticks, what_is_read_now_is_now) {
  tick_clock clock(best_tick_source());
  clock.learn();
  const std::uint64_t before = raw_clock_ns();
  const std::uint64_t read = clock.to_ns(read_ticks(clock.source()) >> clock.shift());
  const std::uint64_t after = raw_clock_ns();
  // Both clocks have run for 20 ms; their ratio is known to within a part in 10,000.
  EXPECT_GE(read + 10000, before);
  EXPECT_LE(read, after + 10000);
}

TEST(ticks, a_step_is_short) {
  for (const tick_source source : {tick_source::system_clock, best_tick_source()}) {
    const tick_clock clock(source);
    EXPECT_GT(step_of_ticks(source), 0U);
    EXPECT_LT(clock.duration_ns(step_of_ticks(source)), 5000);
  }
}

}  // namespace
}  // namespace tarn::profiler
