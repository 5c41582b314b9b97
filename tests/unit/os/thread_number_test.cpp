// SPDX-License-Identifier: MIT
// The kernel's id of a thread, from libc's descriptor of the thread.
#include "os/thread_number.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "../../child_status.hpp"

namespace tarn::os {
namespace {

TEST(thread_number, is_the_kernels_in_every_thread_and_after_fork) {
  EXPECT_EQ(thread_number(), gettid());
  std::thread([] { EXPECT_EQ(thread_number(), gettid()); }).join();
  EXPECT_EQ(testing_support::child_status([] { return thread_number() == getpid() ? 0 : 1; }), 0)
      << "after fork it is another thread's";
}

}  // namespace
}  // namespace tarn::os
