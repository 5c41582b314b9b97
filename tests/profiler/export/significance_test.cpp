// SPDX-License-Identifier: MIT
// Quantiles of Student's and of the normal distribution, compared with published tables.
#include "profiler/export/difference.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(significance, bounds_are_those_of_the_tables) {
  const struct {
    std::size_t degrees;
    double probability, bound;
  } rows[] = {{1, 0.95, 12.7062}, {2, 0.95, 4.30265}, {3, 0.95, 3.18245},   {4, 0.99, 4.60409},
              {5, 0.5, 0.726687}, {8, 0.95, 2.30600}, {9, 0.999, 4.780913}, {30, 0.95, 2.04227}};
  for (const auto& row : rows)
    EXPECT_NEAR(student_bound(row.degrees, row.probability), row.bound, 2e-5 * row.bound);
  EXPECT_NEAR(normal_bound(0.95), 1.959964, 1e-5);
  EXPECT_NEAR(student_bound(2000, 0.95), normal_bound(0.95), 2e-3);
}

TEST(significance, probabilities_near_1_have_bounds) {
  EXPECT_GT(student_bound(8, 1 - 1e-9), student_bound(8, 1 - 1e-6));
  EXPECT_LT(student_bound(8, 1 - 1e-9), 1e4);
  EXPECT_GT(student_bound(1, 1 - 1e-9), 1e6);
}

}  // namespace
}  // namespace tarn::profiler
