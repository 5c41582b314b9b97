// SPDX-License-Identifier: MIT
// The kernel's id of a thread, from libc's descriptor of the thread.
#include "os/thread_number.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace tarn::os {
namespace {

TEST(thread_number, is_the_kernels_in_every_thread_and_after_fork) {
  EXPECT_EQ(thread_number(), gettid());
  std::thread([] { EXPECT_EQ(thread_number(), gettid()); }).join();
  const pid_t child = fork();
  if (child == 0) _exit(thread_number() == getpid() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "after fork it is another thread's";
}

}  // namespace
}  // namespace tarn::os
