// SPDX-License-Identifier: MIT
#include "profiler/proc/proc_status.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace tarn::profiler {
namespace {

TEST(proc_status, process_with_a_difficult_name) {
  const auto process = parse_process(
      "4711 (a) (b c) S 1 2 3 4 5 6 100 200 3 4 50 60 7 8 20 0 1 0 999 123456 77 18446744073709551615\n", 10,
      4096);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->id, 4711U);
  EXPECT_EQ(process->name, "a) (b c");
  EXPECT_EQ(process->state, 'S');
  EXPECT_FALSE(process->has_ended());
  EXPECT_EQ(process->start_ticks, 999U);
  EXPECT_EQ(process->minor_faults, 100);
  EXPECT_EQ(process->major_faults, 3);
  EXPECT_DOUBLE_EQ(process->user_ns, 5e9);
  EXPECT_DOUBLE_EQ(process->system_ns, 6e9);
  EXPECT_EQ(process->resident_bytes, 77 * 4096);
  EXPECT_EQ(process->ended_children.minor_faults, 200);
  EXPECT_EQ(process->ended_children.major_faults, 4);
  EXPECT_DOUBLE_EQ(process->ended_children.user_ns, 0.7e9);
  EXPECT_DOUBLE_EQ(process->ended_children.system_ns, 0.8e9);
}

TEST(proc_status, addresses_of_an_image) {
  std::string text = "4711 (a) (b c) S";
  for (int field = 4; field <= 52; ++field) text += ' ' + std::to_string(field * 1000);
  EXPECT_EQ(image_addresses(text), "26000 27000 28000 45000 46000 47000 48000 49000 50000 51000 ");
  EXPECT_EQ(image_addresses(""), "");
  EXPECT_EQ(image_addresses("4711 (x) S 4 5"), "");
  const auto own = static_cast<std::uint32_t>(getpid());
  EXPECT_EQ(image_addresses(proc_text(own, "stat")), image_addresses(proc_text(own, "stat")));
  EXPECT_NE(image_addresses(proc_text(own, "stat")).find(' '), std::string::npos);
}

TEST(proc_status, texts_that_are_no_process) {
  for (const char* text : {"", "4711", "4711 (x)", "4711 (x) S 1 2 3",
                           "(x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711 )x( S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711(x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711 (x) S 1 2 3 4 5 6 - 8 9 10 11 12 13 14 15 16 17 18 19 20 21"}) {
    EXPECT_FALSE(parse_process(text, 100, 4096)) << text;
  }
  EXPECT_TRUE(parse_process("4711 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21", 100, 4096));
}

TEST(proc_status, no_such_process) { EXPECT_FALSE(read_process(0x7fffffff)); }

TEST(proc_status, a_line_of_the_status) {
  const char* text = "Name:\tx\nVmRSSX:\t1 kB\nVmRSS:\t  1234 kB\nEmpty:\n";
  EXPECT_EQ(status_line(text, "VmRSS"), "1234 kB");
  EXPECT_EQ(status_line(text, "Name"), "x");
  EXPECT_EQ(status_line(text, "Empty"), "");
  EXPECT_EQ(status_line(text, "RSS"), "");
}

TEST(proc_status, threads_and_children_of_this_process) {
  const auto self = static_cast<std::uint32_t>(getpid());
  const auto threads = thread_names(self);
  ASSERT_FALSE(threads.empty());
  EXPECT_EQ(threads.front().first, self);
  const std::vector<std::uint32_t> all = numbers_in("/proc");
  EXPECT_NE(std::find(all.begin(), all.end(), self), all.end());
  EXPECT_TRUE(children_of(0x7fffffff).empty());
}

}  // namespace
}  // namespace tarn::profiler
