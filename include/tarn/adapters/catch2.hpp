// SPDX-License-Identifier: MIT
// For Catch2 (2 and 3): a matcher for allocations, and a budget for the rest of a scope. Include it after Catch2's header.
//
//     CHECK_THAT(tarn::allocations_of([&] { list.push_back(3); }), tarn::in_catch2::at_most({.allocations = 1}));
//     const tarn::in_catch2::allocation_budget budget({.allocations = 0});     // until the end of the scope
//
// Catch2's own macros allocate: between the construction and the end of a budget use none. Limits, requirements and cost:
// tarn/testing.hpp. Thread safety: as there; Catch2's assertions belong to the main thread. Failure: std::logic_error if the
// program's malloc is not tarn's, which fails the test.
#pragma once

#include "tarn/detail/abi.hpp"

#include <source_location>
#include <string>

#include "tarn/testing.hpp"

#if !defined(FAIL_CHECK)
#error \
    "tarn/adapters/catch2.hpp: include Catch2's header first: <catch2/catch.hpp>, or <catch2/catch_all.hpp> of Catch2 3"
#endif

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace in_catch2 {

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using matcher_base = Catch::Matchers::MatcherBase<allocation_count>;
#else
using matcher_base = Catch::MatcherBase<allocation_count>;
#endif

class at_most : public matcher_base {
 public:
  explicit at_most(const allocation_limit& limit) : limit_(limit) {}
  [[nodiscard]] bool match(const allocation_count& used) const override { return used <= limit_; }

 protected:
  [[nodiscard]] std::string describe() const override { return "is " + to_string(limit_); }

 private:
  allocation_limit limit_;
};

// A failure that is not fatal; its message names the line where the budget was made.
class report_failure {
 public:
  explicit report_failure(std::source_location where) : where_(where) {}
  void operator()(const std::string& message) const {
    FAIL_CHECK(where_.file_name() << ':' << where_.line() << ": " << message);
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

}  // namespace in_catch2
TARN_NAMESPACE_END
}  // namespace tarn
