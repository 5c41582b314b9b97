// SPDX-License-Identifier: MIT
// tarn/adapters/catch2.hpp in a program whose malloc is tarn's. That failures are reported is tested by tests that must fail.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tarn/adapters/catch2.hpp"

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

TEST_CASE("comparisons and matchers") {
  CHECK(allocations_of(allocate_twice) <= allocation_limit{.allocations = 2, .bytes = 320});
  CHECK_THAT(allocations_of(allocate_twice), tarn::in_catch2::at_most({.allocations = 2}));
  CHECK_THAT(allocations_of(allocate_twice), !tarn::in_catch2::at_most({.allocations = 2, .bytes = 319}));
  CHECK(tarn::in_catch2::at_most({.allocations = 1}).toString() == "is at most 1 allocation");
  CHECK(Catch::Detail::stringify(allocations_of(allocate_twice)) ==
        "2 allocations of 320 bytes in all (64, 256)");
}

TEST_CASE("a budget that is kept") {
  const tarn::in_catch2::allocation_budget budget({.allocations = 2});
  allocate_twice();
}

TEST_CASE("a budget that is exceeded", "[!shouldfail]") {
  const tarn::in_catch2::allocation_budget budget({.allocations = 1});
  allocate_twice();
}

TEST_CASE("a matcher that does not match", "[!shouldfail]") {
  CHECK_THAT(allocations_of(allocate_twice), tarn::in_catch2::at_most({.allocations = 1}));
}
