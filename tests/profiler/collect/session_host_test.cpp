// SPDX-License-Identifier: MIT
// The header of a session shows that the collector lives, whatever its own thread does.
#include "profiler/collect/session_host.hpp"

#include <gtest/gtest.h>
#include <time.h>

namespace tarn::profiler {
namespace {

TEST(session_host, its_heart_beats_while_its_owner_is_busy) {
  session_host host(record_mode::full, 0, 0, tick_clock(tick_source::system_clock));
  const std::uint64_t first = host.header().beat;
  const std::uint64_t until = raw_clock_ns() + 5 * second_ns;
  while (host.header().beat < first + 3 && raw_clock_ns() < until) continue;
  EXPECT_GE(host.header().beat, first + 3);
  EXPECT_EQ(host.header().rounds, 0U) << "these are the owner's";
}

}  // namespace
}  // namespace tarn::profiler
