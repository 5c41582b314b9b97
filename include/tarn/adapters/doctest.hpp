// SPDX-License-Identifier: MIT
// For doctest: a budget for the rest of a scope. doctest has no matchers; its CHECK takes the comparison itself apart:
//
//     CHECK(tarn::allocations_of([&] { list.push_back(3); }) <= tarn::allocation_limit{.allocations = 1});
//     const tarn::in_doctest::allocation_budget budget({.allocations = 0});     // until the end of the scope
//
// Include it after doctest's header. doctest's own macros may allocate: between the construction and the end of a budget use
// none. Limits, requirements and cost: tarn/testing.hpp. Thread safety: as there. Failure: std::logic_error if the program's
// malloc is not tarn's, which fails the test.
#pragma once

#include "tarn/detail/abi.hpp"

#include <source_location>
#include <string>

#include "tarn/testing.hpp"

#if !defined(DOCTEST_ADD_FAIL_CHECK_AT)
#error "tarn/adapters/doctest.hpp: include <doctest/doctest.h> first"
#endif

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace in_doctest {

// A failure that is not fatal, at the line where the budget was made.
class report_failure {
 public:
  explicit report_failure(std::source_location where) : where_(where) {}
  void operator()(const std::string& message) const {
    DOCTEST_ADD_FAIL_CHECK_AT(where_.file_name(), static_cast<int>(where_.line()), message);
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

}  // namespace in_doctest
TARN_NAMESPACE_END
}  // namespace tarn
