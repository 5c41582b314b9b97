// SPDX-License-Identifier: MIT
// For GoogleTest: an assertion and a matcher for allocations, and a budget for the rest of a scope.
//
//     EXPECT_TRUE(tarn::in_googletest::allocates_at_most({.allocations = 1}, [&] { list.push_back(3); }));
//     EXPECT_THAT(tarn::allocations_of([&] { list.push_back(3); }), tarn::in_googletest::at_most({.allocations = 1}));
//     const tarn::in_googletest::allocation_budget budget({.allocations = 0});     // until the end of the scope
//
// EXPECT_THAT needs <gmock/gmock.h>. Limits, requirements and cost: tarn/testing.hpp. Thread safety: as there; a budget must end in the thread that runs the
// test, or GoogleTest must be built for threads. Failure: std::logic_error if the program's malloc is not tarn's, which
// fails the test.
#pragma once

#include "tarn/detail/abi.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <source_location>
#include <string>
#include <utility>

#include "tarn/testing.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace in_googletest {

// Calls `code`; success if it allocates no more than the limit.
template <class Code>
[[nodiscard]] ::testing::AssertionResult allocates_at_most(const allocation_limit& limit, Code&& code) {
  const allocation_count used = allocations_of(std::forward<Code>(code));
  if (used <= limit) return ::testing::AssertionSuccess() << to_string(used);
  return ::testing::AssertionFailure()
         << "it has made " << to_string(used) << "; allowed: " << to_string(limit);
}

// A failure that is not fatal, at the line where the budget was made.
class report_failure {
 public:
  explicit report_failure(std::source_location where) : where_(where) {}
  void operator()(const std::string& message) const {
    ADD_FAILURE_AT(where_.file_name(), static_cast<int>(where_.line())) << message;
  }

 private:
  std::source_location where_;
};

class allocation_budget : public basic_allocation_budget<report_failure> {
 public:
  explicit allocation_budget(const allocation_limit& limit,
                             std::source_location where = std::source_location::current())
      : basic_allocation_budget(limit, report_failure(where)) {}
};

// For EXPECT_THAT: an allocation_count within the limit.
class at_most_matcher {
 public:
  explicit at_most_matcher(const allocation_limit& limit) : limit_(limit) {}
  bool MatchAndExplain(const allocation_count& used, ::testing::MatchResultListener* /*listener*/) const {
    return used <= limit_;
  }
  void DescribeTo(std::ostream* out) const { *out << "is " << to_string(limit_); }
  void DescribeNegationTo(std::ostream* out) const { *out << "is not " << to_string(limit_); }

 private:
  allocation_limit limit_;
};
inline ::testing::PolymorphicMatcher<at_most_matcher> at_most(const allocation_limit& limit) {
  return ::testing::MakePolymorphicMatcher(at_most_matcher(limit));
}

}  // namespace in_googletest
TARN_NAMESPACE_END
}  // namespace tarn
