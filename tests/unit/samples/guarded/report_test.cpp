// SPDX-License-Identifier: MIT
// guarded_report: threads that report at the same time.
#include "samples/guarded/report.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "unwind/stack_walk.hpp"

namespace tarn {
namespace {

void report_often(const guarded_slot& slot, int times) {
  for (int i = 0; i < times; ++i) {
    guarded_report::write_fault(slot, {slot.start + 100, guarded_report::access::write, unwind::here()});
  }
}

// Four threads report ten times each, as if the program's own handler let them go on after a report. Returns 0 if that
// takes less than 8 s.
int report_from_threads() {
  // A slow reader of standard error makes a report last until the next one begins.
  int ends[2];
  if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0 || dup2(ends[1], 2) < 0) return 2;
  std::thread([from = ends[0]] {
    char text[256];
    while (read(from, text, sizeof text) > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }).detach();
  static guarded_slot slot;
  slot.start = 4096;
  slot.size = 100;
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { report_often(slot, 10); });
  for (std::thread& thread : threads) thread.join();
  return std::chrono::steady_clock::now() - began < std::chrono::seconds(8) ? 0 : 1;
}

TEST(guarded_report, threads_that_report_at_once_do_so_one_after_another) {
  EXPECT_EXIT(_exit(report_from_threads()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tarn
