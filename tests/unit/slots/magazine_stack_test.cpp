// SPDX-License-Identifier: MIT
#include "slots/magazine_stack.hpp"

#include <gtest/gtest.h>

#include "broken_invariant.hpp"

namespace tarn {

class magazine_stack_test_access {
 public:
  static void set_count(magazine_stack& stack, std::uint32_t count) { stack.count_.store(count); }
  static low_mark& low(magazine_stack& stack) { return stack.low_; }
};

namespace {

TEST(magazine_stack, the_warmest_first) {
  magazine_stack stack;
  magazine m[2];
  for (magazine& each : m) stack.push(&each);
  EXPECT_EQ(stack.count(), 2U);
  EXPECT_EQ(stack.pop(), &m[1]);
  EXPECT_EQ(stack.pop(), &m[0]);
  EXPECT_EQ(stack.pop(), nullptr);
  EXPECT_EQ(stack.count(), 0U);
}

TEST(magazine_stack, a_period_ends_with_those_that_were_not_needed_in_it) {
  magazine_stack stack;
  magazine m[4];
  for (magazine& each : m) stack.push(&each);
  EXPECT_EQ(stack.end_period(false), 0U) << "all are new";
  stack.push(stack.pop());
  EXPECT_EQ(stack.end_period(false), 3U);
  EXPECT_EQ(stack.end_period(true), 4U);
}

TEST(magazine_stack, finds_a_broken_invariant) {
  using access = magazine_stack_test_access;
  magazine_stack stack;
  magazine m;
  stack.push(&m);
  stack.validate();
  access::set_count(stack, 2);
  EXPECT_BROKEN(stack.validate(), "magazine_stack", "count() == length", &stack);
  access::set_count(stack, 1);
  access::low(stack).end_period(2);
  EXPECT_BROKEN(stack.validate(), "magazine_stack", "low_.lowest() <= count()", &stack);
}

}  // namespace
}  // namespace tarn
