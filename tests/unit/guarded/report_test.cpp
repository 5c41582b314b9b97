// SPDX-License-Identifier: MIT
#include "guarded/report.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "os/stack_walk.hpp"

namespace tarn {
namespace {

void report_often(const guarded_slot& slot, int times) {
  for (int i = 0; i < times; ++i) {
    guarded_report::write_fault(slot, {slot.start + 100, guarded_report::access::write, unwind::here()});
  }
}

// The program's own handler lets each thread go on after its report.
int report_from_threads() {
  // The process's descriptor 2 is a file that nobody reads.
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || dup2(nowhere, 2) < 0) return 2;
  static guarded_slot slot;
  slot.start = 4096;
  slot.size = 100;
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { report_often(slot, 25); });
  for (std::thread& thread : threads) thread.join();
  return std::chrono::steady_clock::now() - began < std::chrono::seconds(8) ? 0 : 1;
}

TEST(guarded_report, threads_that_report_at_once_do_so_one_after_another) {
  EXPECT_EXIT(_exit(report_from_threads()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tarn
