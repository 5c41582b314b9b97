// SPDX-License-Identifier: MIT
// tarn/adapters/doctest.hpp in a program whose malloc is tarn's. That failures are reported is tested by tests that must fail.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tarn/adapters/doctest.hpp"

namespace {

using tarn::allocation_limit;
using tarn::allocations_of;

// What the compiler cannot remove.
void allocate_twice() {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{256}}) {
    auto* block = new char[bytes];
    asm volatile("" : "+r"(block) : : "memory");
    delete[] block;
  }
}

}  // namespace

TEST_CASE("comparisons") {
  CHECK(allocations_of(allocate_twice) <= allocation_limit{.allocations = 2, .bytes = 320});
  CHECK_FALSE(allocations_of(allocate_twice) <= allocation_limit{.allocations = 2, .bytes = 319});
  CHECK(doctest::toString(allocations_of(allocate_twice)) == "2 allocations of 320 bytes in all (64, 256)");
}

TEST_CASE("a budget that is kept") {
  const tarn::in_doctest::allocation_budget budget({.allocations = 2});
  allocate_twice();
}

TEST_CASE("a budget that is exceeded" * doctest::should_fail()) {
  const tarn::in_doctest::allocation_budget budget({.allocations = 1});
  allocate_twice();
}

TEST_CASE("a comparison that does not hold" * doctest::should_fail()) {
  CHECK(allocations_of(allocate_twice) <= allocation_limit{.allocations = 1});
}
