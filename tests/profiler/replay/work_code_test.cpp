// SPDX-License-Identifier: MIT
// Times in one byte.
#include "profiler/replay/work_code.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(work_code, keeps_a_time_to_within_a_tenth) {
  for (std::uint64_t ns = 0; ns <= 15; ++ns) EXPECT_EQ(work_of_code(code_of_work(ns)), ns);
  for (std::uint64_t ns = 16; ns < most_work_ns; ns += 1 + ns / 50) {
    const auto kept = static_cast<double>(work_of_code(code_of_work(ns)));
    EXPECT_NEAR(kept, static_cast<double>(ns), 0.07 * static_cast<double>(ns)) << ns;
  }
  EXPECT_EQ(work_of_code(code_of_work(~std::uint64_t{0})), most_work_ns);
}

}  // namespace
}  // namespace tarn::profiler
