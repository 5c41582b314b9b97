// SPDX-License-Identifier: MIT
// sandbox: what is known of filters before and after one is noted. A filter from before the program's start: guarantee
// 33.
#include "os/sandbox.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

namespace {

using namespace tarn;

// In a child, because a filter is noted for good.
template <class Check>
void in_child(Check check) {
  EXPECT_EXIT(std::_Exit(check() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(sandbox, none_is_entered_until_it_is_noted) {
  EXPECT_FALSE(os::has_entered_sandbox());
  in_child([] {
    os::note_sandbox();
    return os::has_entered_sandbox() && os::in_sandbox();
  });
  EXPECT_FALSE(os::has_entered_sandbox());
}

TEST(sandbox, threads_are_allowed_once) {
  in_child([] {
    os::allow_thread_calls();
    return !os::allow_thread_calls() && !os::in_sandbox();
  });
}

TEST(sandbox, a_filter_that_is_noted_counts_although_threads_were_allowed) {
  in_child([] {
    os::allow_thread_calls();
    os::note_sandbox();
    return os::in_sandbox();
  });
}

TEST(sandbox, the_question_leaves_errno_alone) {
  errno = 7;
  static_cast<void>(os::in_sandbox());
  EXPECT_EQ(errno, 7);
}

}  // namespace
