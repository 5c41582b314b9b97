// SPDX-License-Identifier: MIT
// recycler_budget: payments, refunds and limits, also by several threads.
#include "fronts/recyclers/recycler_budget.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

TEST(recycler_budget, pays_up_to_its_limits) {
  recycler_budget budget(1000, 3);
  EXPECT_TRUE(budget.pay(400, 1));
  EXPECT_TRUE(budget.pay(600, 1));
  EXPECT_FALSE(budget.pay(1, 1));
  EXPECT_EQ(budget.paid_bytes(), 1000U);
  EXPECT_EQ(budget.paid_objects(), 2U);
  budget.refund({600, 1});
  EXPECT_TRUE(budget.pay(100, 1));
  EXPECT_TRUE(budget.pay(100, 1));
  EXPECT_FALSE(budget.pay(100, 1));
  // A payment that exceeds one of the limits is not made in part.
  EXPECT_EQ(budget.paid_bytes(), 600U);
}

TEST(recycler_budget, no_limit) {
  recycler_budget budget(0, 0);
  EXPECT_TRUE(budget.pay(std::size_t{1} << 60, std::size_t{1} << 60));
  EXPECT_TRUE(budget.is_ample(1 << 20, 1000));
}

TEST(recycler_budget, threads_together_do_not_exceed_it) {
  recycler_budget budget(100, 1000);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 20000; ++i) {
        if (!budget.pay(30, 1)) continue;
        EXPECT_LE(budget.paid_bytes(), 100U);
        budget.refund({30, 1});
      }
    });
  }
  threads.clear();
  EXPECT_EQ(budget.paid_bytes(), 0U);
}

TEST(recycler_budget, finds_a_broken_invariant) {
  recycler_budget budget(1000, 3);
  budget.validate();
  budget.restart({1001, 3});
  EXPECT_BROKEN(budget.validate(), "recycler_budget", "paid_bytes() <= bytes_.most", &budget);
  budget.restart({1000, 4});
  EXPECT_BROKEN(budget.validate(), "recycler_budget", "paid_objects() <= objects_.most", &budget);
}

}  // namespace
}  // namespace tarn
