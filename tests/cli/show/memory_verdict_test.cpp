// SPDX-License-Identifier: MIT
// The beginning of the summary of a program that memory or a signal has ended.
#include "cli/show/profile_verdict.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace tarn::cli {
namespace {

constexpr double mib = 1 << 20;

profiler::profile holding(double bytes) {
  profiler::profile p;
  p.mode = profiler::profile_mode::full;
  p.meta = {{"program", "/bin/p"}, {"peak_resident_bytes", bytes}};
  p.stacks = {{}, {0, 0x1800}};
  p.symbols[0x1800] = {{"load", "/src/load.cpp", 7, false}};
  profiler::site one;
  one.stack = 1;
  p.sites.push_back(one);
  profiler::memory_row row;
  row.time_ns = 1'500'000'000;
  row.live = 0.75 * bytes;
  row.kept = 0.25 * bytes;
  row.resident_bytes = bytes;
  p.memory.rows = {row};
  p.memory.parts = {{row.time_ns, "live", "", 1, row.live, 0}};
  return p;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(memory_verdict, nothing_for_a_program_that_ended_by_itself_with_room_left) {
  profiler::profile p = holding(100 * mib);
  EXPECT_EQ(render_memory_verdict(p), "");
  p.meta["exit"] = {{"status", 1}};
  p.meta["memory_limit_bytes"] = 200 * mib;
  EXPECT_EQ(render_memory_verdict(p), "");
}

TEST(memory_verdict, a_killed_program_with_its_limit_and_who_held_the_memory) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.meta["memory_limit_bytes"] = 512 * mib;
  const std::string text = render_memory_verdict(p);
  EXPECT_TRUE(text.starts_with("killed by signal 9 (Killed); its resident memory reached at least 400 MiB"))
      << text;
  EXPECT_TRUE(has(text, "the limit of its control group is 512 MiB")) << text;
  EXPECT_TRUE(has(text, "at 1.5")) << text;
  EXPECT_LT(text.find("300 MiB"), text.find("100 MiB")) << text;
  EXPECT_TRUE(has(text, "live blocks: load")) << text;
}

TEST(memory_verdict, a_program_near_its_limit_and_one_that_crashed) {
  profiler::profile p = holding(190 * mib);
  p.meta["memory_limit_bytes"] = 200 * mib;
  EXPECT_TRUE(has(render_memory_verdict(p), "load"));
  profiler::profile crashed = holding(190 * mib);
  crashed.meta["exit"] = {{"signal", SIGSEGV}};
  EXPECT_TRUE(has(render_memory_verdict(crashed), "signal 11"));
  EXPECT_FALSE(has(render_memory_verdict(crashed), "load"));
}

}  // namespace
}  // namespace tarn::cli
