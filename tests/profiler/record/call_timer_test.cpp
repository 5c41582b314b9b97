// SPDX-License-Identifier: MIT
// A timed stretch knows whether the kernel has interrupted it.
#include "profiler/record/call_timer.hpp"

#include <gtest/gtest.h>
#include <time.h>

namespace tarn::profiler::recorder {
namespace {

timing of_nothing() { return call_timer(tick_source::system_clock).stop().known; }

TEST(call_timer, runs_from_its_start_on) {
  call_timer timer;
  EXPECT_FALSE(timer.is_running());
  timer.start(tick_source::system_clock);
  EXPECT_TRUE(timer.is_running());
  const timespec moment = {0, 2'000'000};
  nanosleep(&moment, nullptr);
  const call_time took = timer.stop();
  EXPECT_GE(took.ticks, 2'000'000U);
  EXPECT_LE(took.end, read_ticks(tick_source::system_clock));
  EXPECT_EQ(took.nothing, 0U);
}

TEST(call_timer, an_undisturbed_stretch_is_whole) {
  if (of_nothing() == timing::doubtful) GTEST_SKIP() << "libc has registered no rseq area";
  int tries = 0;
  while (tries < 1000 && of_nothing() != timing::whole) ++tries;
  EXPECT_LT(tries, 1000);
}

TEST(call_timer, a_thread_that_has_slept_was_interrupted) {
  if (of_nothing() == timing::doubtful) GTEST_SKIP() << "libc has registered no rseq area";
  call_timer timer(tick_source::counter);
  const timespec moment = {0, 1'000'000};
  nanosleep(&moment, nullptr);
  EXPECT_EQ(timer.stop().known, timing::interrupted);
}

TEST(call_timer, its_section_is_empty_and_ends_in_the_signature) {
  const restartable_section* const section = section_of_no_length();
  EXPECT_EQ(section->length, 0U);
  EXPECT_EQ(section->start, section->abort);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(section) % 32, 0U) << "as the kernel requires";
#if defined(__x86_64__)
  EXPECT_EQ(reinterpret_cast<const std::uint32_t*>(section->abort)[-1], 0x53053053U);
#endif
}

}  // namespace
}  // namespace tarn::profiler::recorder
