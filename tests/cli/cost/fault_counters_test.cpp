// SPDX-License-Identifier: MIT
// Parsing of /proc/vmstat, /proc/stat and /proc/PID/stat; counters of a family of processes.
#include "cli/cost/fault_rates.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tarn::cli {
namespace {

constexpr const char* vmstat =
    "nr_free_pages 100\npgfault_x 7\npgfault 5000\npgmajfault 20\nthp_fault_alloc 3\nthp_fault_fallback 9\n";
constexpr const char* stat =
    "cpu  100 10 50 800 20 3 2 15 40 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 12345\nbtime 1\n";

TEST(fault_counters, machine) {
  const auto counters = parse_machine_counters(vmstat, stat, 100);
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->faults, 5000);
  EXPECT_EQ(counters->major_faults, 20);
  EXPECT_EQ(counters->huge_faults, 3);
  EXPECT_DOUBLE_EQ(counters->user_seconds, 1.1);
  EXPECT_DOUBLE_EQ(counters->system_seconds, 0.55);
}

TEST(fault_counters, machine_without_what_is_needed) {
  EXPECT_FALSE(parse_machine_counters("", stat, 100));
  EXPECT_FALSE(parse_machine_counters("pgfault\n", stat, 100));
  EXPECT_FALSE(parse_machine_counters("pgfault x\n", stat, 100));
  EXPECT_FALSE(parse_machine_counters(vmstat, "", 100));
  EXPECT_FALSE(parse_machine_counters(vmstat, "cpu 1 2\n", 100));
  EXPECT_FALSE(parse_machine_counters(vmstat, "cpu 1 2 3 - 5\n", 100));
  // Old kernels have fewer columns, and some have no huge pages.
  const auto counters = parse_machine_counters("pgfault 5", "cpu 1 2 3 4", 1);
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->huge_faults, 0);
  EXPECT_EQ(counters->system_seconds, 3);
}

TEST(fault_counters, no_such_process) { EXPECT_FALSE(read_family_counters(0x7fffffff)); }

// Touches `pages` pages, writes a byte to `ready` and waits to be killed.
void touch_and_wait(std::size_t pages, int ready) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, pages * page, MADV_NOHUGEPAGE);
  for (std::size_t index = 0; index < pages; ++index) static_cast<volatile char*>(memory)[index * page] = 1;
  if (write(ready, "x", 1) == 1) pause();
  _exit(0);
}

TEST(fault_counters, a_family_counts_living_and_ended_children) {
  constexpr std::size_t pages = 3000;
  const auto before = read_family_counters(getpid());
  const auto own_before = profiler::read_process(static_cast<std::uint32_t>(getpid()));
  ASSERT_TRUE(before && own_before);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) touch_and_wait(pages, ends[1]);
  char ready = 0;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  const auto living = read_family_counters(getpid());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto ended = read_family_counters(getpid());
  const auto own_after = profiler::read_process(static_cast<std::uint32_t>(getpid()));
  close(ends[0]);
  close(ends[1]);
  ASSERT_TRUE(living && ended && own_after);
  EXPECT_GE((*living - *before).faults, pages);
  EXPECT_GE((*ended - *before).faults, pages);
  EXPECT_LT((counters_of(*own_after) - counters_of(*own_before)).faults, pages);
}

}  // namespace
}  // namespace tarn::cli
