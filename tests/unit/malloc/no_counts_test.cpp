// SPDX-License-Identifier: MIT
// tarn/testing.hpp in a program whose malloc is not tarn's: budgets fail, they are never kept for want of a count.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tarn/testing.hpp"

namespace {

TEST(no_counts, a_program_with_another_malloc_is_told_so) {
  EXPECT_FALSE(tarn::counts_are_possible());
  EXPECT_THROW((void)tarn::allocations_of([] {}), std::logic_error);
  EXPECT_THROW(const tarn::allocation_counter counter, std::logic_error);
}

// The calls under tarn's own names are counted.
TEST(no_counts, tarn_malloc_is_counted) {
  tarn_allocation_count count;
  tarn_count_begin(&count);
  tarn_free(tarn_malloc(100));
  tarn_free(tarn_aligned_alloc(64, 300));
  void* const large = tarn_malloc(400000);
  tarn_count_end(&count);
  EXPECT_EQ(count.allocations, 3U);
  EXPECT_GE(count.bytes, 400400U);
  tarn_free(large);
}

// Guarded allocations go on after a count: their windows begin anew.
TEST(no_counts, a_count_does_not_outlive_its_scope) {
  tarn_allocation_count count;
  tarn_count_begin(&count);
  tarn_count_end(&count);
  for (int i = 0; i < 1000; ++i) tarn_free(tarn_malloc(100));
  EXPECT_EQ(count.allocations, 0U);
}

}  // namespace
