// SPDX-License-Identifier: MIT
// allocation_budget: tests that fail if a function allocates more than it may. Link: GTest::gtest_main, tarn::malloc (libtarn,
// so that malloc is counted).
#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "tarn/adapters/googletest.hpp"

namespace {

// The numbers of "1,2,3".
void parse(std::string_view text, std::vector<int>& numbers) {
  numbers.clear();
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int number = 0;
    at = std::from_chars(at, end, number).ptr + 1;
    numbers.push_back(number);
  }
}

TEST(parse, allocates_nothing_once_the_vector_is_large_enough) {
  std::vector<int> numbers;
  numbers.reserve(10);
  EXPECT_TRUE(tarn::in_googletest::allocates_at_most({.allocations = 0}, [&] { parse("1,2,3,4", numbers); }));
}

TEST(parse, grows_the_vector_a_few_times) {
  std::vector<int> numbers;
  const auto used = tarn::allocations_of([&] { parse("1,2,3,4,5,6,7,8,9,10", numbers); });
  EXPECT_LE(used, (tarn::allocation_limit{.allocations = 5, .bytes = 124}));
}

TEST(parse, a_whole_scope) {
  std::vector<int> numbers(100);
  const tarn::in_googletest::allocation_budget budget({.allocations = 0});
  for (int round = 0; round < 10; ++round) parse("1,2,3", numbers);
}

}  // namespace
