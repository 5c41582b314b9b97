// SPDX-License-Identifier: MIT
// sealed: a value that cannot be written after seal().
#include "os/sealed.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../../child_status.hpp"
#include "base/compiler.hpp"

namespace tarn::os {
namespace {

struct values {
  int number = 3;
  const char* text = nullptr;
};

constinit sealed<values> under_test;
int neighbour = 1;

TEST(sealed, is_readable_before_and_after_and_writable_no_more) {
  EXPECT_EQ(under_test->number, 3);
  under_test.seal({5, "five"});
  EXPECT_EQ(under_test->number, 5);
  EXPECT_STREQ((*under_test).text, "five");
  neighbour = 2;
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer reports the fault itself";
  const int status = testing_support::child_status([] {
    *const_cast<volatile int*>(&under_test->number) = 7;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

}  // namespace
}  // namespace tarn::os
