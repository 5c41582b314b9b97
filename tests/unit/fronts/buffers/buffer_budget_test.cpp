// SPDX-License-Identifier: MIT
// buffer_budget: the budget under given limits and memory pressure, and when it takes a look at the system into
// account.
#include "fronts/buffers/buffer_budget.hpp"

#include <gtest/gtest.h>

#include "base/units.hpp"
#include "broken_invariant.hpp"

namespace tarn {

class buffer_budget_test_access {
 public:
  static std::atomic<unsigned>& halvings(buffer_budget& budget) { return budget.halvings_; }
  static std::atomic<int>& calm(buffer_budget& budget) { return budget.calm_; }
};

namespace {

constexpr auto calm = pressure::level::calm;
constexpr auto tight = pressure::level::tight;

TEST(buffer_budget, follows_the_limit) {
  buffer_budget budget;
  EXPECT_EQ(budget.of(3 * mib), 3 * mib);
  budget.note(8 * gib, calm);
  EXPECT_EQ(budget.of(0), 1 * gib);
  EXPECT_EQ(budget.of(3 * gib), 3 * gib);
  EXPECT_EQ(budget.of(5 * gib), 4 * gib);
  budget.note(256 * mib, calm);
  EXPECT_EQ(budget.of(0), 32 * mib);
  EXPECT_EQ(budget.of(1 * gib), 128 * mib);
  budget.note(0, calm);
  EXPECT_EQ(budget.of(0), 0U);
  EXPECT_EQ(budget.of(1 * mib), 0U);
}

TEST(buffer_budget, halves_under_pressure_and_recovers_slowly) {
  buffer_budget budget;
  budget.note(8 * gib, calm);
  budget.note(8 * gib, tight);
  EXPECT_EQ(budget.of(64 * mib), 32 * mib);
  budget.note(8 * gib, tight);
  EXPECT_EQ(budget.of(64 * mib), 16 * mib);
  for (unsigned i = 0; i < buffer_budget::most_halvings; ++i) budget.note(8 * gib, tight);
  EXPECT_EQ(budget.of(64 * mib), 0U);
  for (int i = 0; i < buffer_budget::calm_looks; ++i) {
    budget.note(8 * gib, calm);
    EXPECT_EQ(budget.of(64 * mib), 0U);
  }
  budget.note(8 * gib, calm);
  EXPECT_EQ(budget.of(64 * mib), 64 * mib >> (buffer_budget::most_halvings - 1));
  for (unsigned i = 1; i < buffer_budget::most_halvings; ++i) budget.note(8 * gib, calm);
  EXPECT_EQ(budget.of(64 * mib), 64 * mib);
  budget.note(8 * gib, calm);
  EXPECT_EQ(budget.of(64 * mib), 64 * mib);
}

TEST(buffer_budget, keeps_nothing_above_the_soft_limit) {
  buffer_budget budget;
  budget.note(8 * gib, calm);
  budget.note(8 * gib, pressure::level::above_soft);
  EXPECT_EQ(budget.of(0), 0U);
  for (int i = 0; i <= buffer_budget::calm_looks; ++i) budget.note(8 * gib, calm);
  EXPECT_EQ(budget.of(0), 1 * gib >> (buffer_budget::most_halvings - 1));
}

TEST(buffer_budget, takes_each_look_into_account_once) {
  pressure::limit_rule rule;
  pressure::watch watch(rule);
  buffer_budget budget;
  budget.refresh(watch, 100000);
  EXPECT_LT(budget.of(0), std::size_t{1} << 60);
  budget.note(8 * mib, calm);
  budget.refresh(watch, 100000 + pressure::interval_ms - 1);
  EXPECT_EQ(budget.of(0), 1 * mib);
  // Another user of the watch causes the look.
  watch.look(100000 + pressure::interval_ms);
  budget.refresh(watch, 100000 + pressure::interval_ms);
  EXPECT_NE(budget.of(0), 1 * mib);
}

TEST(buffer_budget, finds_a_broken_invariant) {
  buffer_budget budget;
  budget.validate();
  buffer_budget_test_access::halvings(budget) = buffer_budget::most_halvings + 1;
  EXPECT_BROKEN(budget.validate(), "buffer_budget", "halvings <= most_halvings", &budget);
  buffer_budget_test_access::halvings(budget) = 0;
  buffer_budget_test_access::calm(budget) = buffer_budget::calm_looks + 1;
  EXPECT_BROKEN(budget.validate(), "buffer_budget", "0 <= calm && calm <= calm_looks", &budget);
}

}  // namespace
}  // namespace tarn
