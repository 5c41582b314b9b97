// SPDX-License-Identifier: MIT
// os::fatal prints one line and ends the process, also if the program ignores, blocks or handles SIGABRT. In a build
// with TARN_CHECKS, taking locks in the wrong order ends the process.
#include <gtest/gtest.h>
#include <unistd.h>

#include "expect_abort.hpp"
#include "os/mutex.hpp"
#include "os/report.hpp"
#include "tarn/malloc.h"

namespace tarn::os {
namespace {

class fatal_death : public testing::Test {
 protected:
  fatal_death() { tarn_free(tarn_malloc(1)); }
};

TEST_F(fatal_death, one_line_and_sigabrt) {
  EXPECT_TARN_ABORT(fatal("this went wrong", this), "this went wrong", this);
  EXPECT_TARN_ABORT(fatal("null", nullptr), "null", nullptr);
}

TEST_F(fatal_death, a_long_reason_is_cut_not_overrun) {
  const std::string reason(4000, 'r');
  EXPECT_EXIT(fatal(reason.c_str(), nullptr), testing::KilledBySignal(SIGABRT),
              "^tarn: r+" TARN_END_OF_OUTPUT);
}

TEST_F(fatal_death, ignored_or_blocked_it_is_killed) {
  EXPECT_EXIT(
      {
        signal(SIGABRT, SIG_IGN);
        fatal("ignored", nullptr);
      },
      testing::KilledBySignal(SIGKILL), "tarn: ignored: 0x0");
  EXPECT_EXIT(
      {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, nullptr);
        fatal("blocked", nullptr);
      },
      testing::KilledBySignal(SIGKILL), "tarn: blocked: 0x0");
}

TEST_F(fatal_death, a_handler_that_returns_does_not_save_it) {
  EXPECT_EXIT(
      {
        signal(SIGABRT, [](int) {});
        fatal("handled", nullptr);
      },
      testing::KilledBySignal(SIGKILL), "tarn: handled: 0x0");
}

#if TARN_CHECKS
TEST_F(fatal_death, locks_in_the_wrong_order_end_the_process) {
  mutex first{lock_rank::registry};
  mutex second{lock_rank::page_heap};
  {
    lock_guard outer(first);
    lock_guard inner(second);
  }
  EXPECT_TARN_ABORT(
      {
        lock_guard outer(second);
        lock_guard inner(first);
      },
      "broken invariant of mutex: held_ranks >> \\(rank \\+ 1\\) == 0", &first);
}
#endif

}  // namespace
}  // namespace tarn::os
