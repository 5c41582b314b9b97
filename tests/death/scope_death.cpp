// SPDX-License-Identifier: MIT
// Misuse of scopes, and of their blocks, ends the process with a line that says what is wrong.
#include <gtest/gtest.h>

#include <thread>

#include "expect_abort.hpp"
#include "tarn/scope.hpp"

namespace tarn {
namespace {

using testing_support::hidden;

TEST(scope_death, ended_while_entered) {
  scope s("query");
  const scope_entry in = s.enter();
  EXPECT_EXIT(s.end(), testing::KilledBySignal(SIGABRT),
              "a scope ends while a thread has entered it: \"query\"");
}

TEST(scope_death, ended_before_a_scope_inside) {
  scope outer("outer");
  const scope inner("inner", {.parent = outer.handle()});
  EXPECT_EXIT(outer.end(), testing::KilledBySignal(SIGABRT),
              "a scope ends before a scope inside it: \"outer\"");
}

TEST(scope_death, used_after_its_end) {
  scope s("query");
  const scope_handle handle = s.handle();
  s.end();
  const char* const ended = "use of a scope that has ended, or is none";
  EXPECT_EXIT((void)enter(handle), testing::KilledBySignal(SIGABRT), ended);
  EXPECT_EXIT(tarn_scope_end(handle, nullptr), testing::KilledBySignal(SIGABRT), ended);
  const scope next("next");  // may use the same structure
  EXPECT_EXIT((void)enter(handle), testing::KilledBySignal(SIGABRT), ended);
  EXPECT_EXIT((void)enter({}), testing::KilledBySignal(SIGABRT), ended);
}

TEST(scope_death, left_out_of_order_or_by_another_thread) {
  const scope s("query");
  scope_entry outer = s.enter();
  const scope_entry inner = s.enter();
  (void)inner;
  const char* const wrong =
      "a scope is left by another thread than has entered it, or not the innermost one first";
  const scope other("other");
  const scope_entry innermost = other.enter();
  EXPECT_EXIT(outer.leave(), testing::KilledBySignal(SIGABRT), wrong);
  EXPECT_EXIT(std::thread([&outer] { outer.leave(); }).join(), testing::KilledBySignal(SIGABRT), wrong);
}

TEST(scope_death, blocks_freed_twice_or_from_inside) {
  const scope s("query");
  const scope_entry in = s.enter();
  auto* const block = static_cast<char*>(tarn_malloc(100));
  auto* const other = tarn_malloc(100);
  auto* const large = static_cast<char*>(tarn_malloc(1 << 20));
  EXPECT_EXIT(
      {
        tarn_free(hidden(block));
        tarn_free(hidden(block));
      },
      testing::KilledBySignal(SIGABRT), "double free");
  EXPECT_EXIT(
      {
        tarn_free(hidden(large));
        tarn_free(hidden(large));
      },
      testing::KilledBySignal(SIGABRT), "double free");
  EXPECT_EXIT(tarn_free(hidden(block + 8)), testing::KilledBySignal(SIGABRT), "into a block");
  EXPECT_EXIT(tarn_free(hidden(large + 4096)), testing::KilledBySignal(SIGABRT), "into a block");
  tarn_free(block);
  tarn_free(other);
  tarn_free(large);
}

TEST(scope_death, a_survivor_of_a_checked_scope_is_used) {
  char* block = nullptr;
  {
    scope s("query 7", {.checked = true});
    const scope_entry in = s.enter();
    block = static_cast<char*>(tarn_malloc(100));
  }
  EXPECT_EXIT(
      *hidden(block) = 1, testing::KilledBySignal(SIGSEGV),
      "tarn: access to 0x[0-9a-f]+: it lies in a block of at most [0-9]+ bytes that has outlived its scope "
      "\"query 7\"");
  tarn_free(block);
}

}  // namespace
}  // namespace tarn
