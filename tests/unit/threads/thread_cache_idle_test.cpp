// SPDX-License-Identifier: MIT
// thread_cache: what is taken from idle threads, and from classes that are no longer used.
#include <gtest/gtest.h>

#include "thread_cache_fixture.hpp"

namespace tarn {
namespace {

class thread_cache_idle_test : public thread_cache_fixture {};

TEST_F(thread_cache_idle_test, the_surplus_of_an_idle_thread_is_taken_once) {
  release_all(small, allocate_many(small, 3000));
  ASSERT_TRUE(access::has_spare(cache_, small));
  EXPECT_TRUE(cache_.take_surplus(true)) << "the thread has been active since the last call";
  EXPECT_TRUE(access::has_spare(cache_, small));
  EXPECT_FALSE(cache_.take_surplus(true));
  EXPECT_FALSE(access::has_spare(cache_, small));
  EXPECT_FALSE(cache_.take_surplus(true));
  check(cache_);
  // The thread goes on.
  release_all(small, allocate_many(small, 3000));
  check(cache_);
}

TEST_F(thread_cache_idle_test, surplus_is_taken_from_an_active_thread_when_asked) {
  release_all(small, allocate_many(small, 3000));
  EXPECT_FALSE(cache_.take_surplus(false));
  EXPECT_FALSE(access::has_spare(cache_, small));
}

TEST_F(thread_cache_idle_test, classes_out_of_use_are_given_up) {
  constexpr unsigned idle = 30;
  release_all(idle, allocate_many(idle, 50));
  ASSERT_FALSE(access::is_empty_bin(cache_, idle));
  // Causes slow calls in another class, whose magazines run full and empty.
  for (int i = 0; i < 60000 && !access::is_empty_bin(cache_, idle); ++i) {
    cache_.take_surplus(false);
    const auto objects = allocate_many(small, 700);
    release_all(small, objects);
  }
  EXPECT_TRUE(access::is_empty_bin(cache_, idle));
  EXPECT_FALSE(access::is_empty_bin(cache_, small));
  check(cache_);
}

}  // namespace
}  // namespace tarn
