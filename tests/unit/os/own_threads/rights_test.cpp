// SPDX-License-Identifier: MIT
// rights: capabilities of threads that exist and of one that does not.
#include "os/own_threads/rights.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace {

using tarn::os::capabilities;

TEST(rights, threads_of_a_process_have_the_same) {
  const capabilities own = capabilities::of(0);
  EXPECT_TRUE(own == capabilities::of(gettid()));
  std::thread([&own] { EXPECT_TRUE(own == capabilities::of(gettid())); }).join();
}

TEST(rights, a_thread_that_does_not_exist_has_none) {
  errno = 7;
  EXPECT_TRUE(capabilities::of(0x7fffffff) == capabilities());
  EXPECT_EQ(errno, 7);
}

}  // namespace
