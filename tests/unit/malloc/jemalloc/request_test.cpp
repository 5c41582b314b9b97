// SPDX-License-Identifier: MIT
// request: reads and writes follow jemalloc's rules for lengths and for values that are missing.
#include "malloc/jemalloc/request.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace tarn::jemalloc {
namespace {

TEST(request, gives_a_value_of_the_right_length) {
  std::uint64_t out = 0;
  std::size_t length = sizeof out;
  EXPECT_EQ(give({nullptr, nullptr, &out, &length, nullptr, 0}, std::uint64_t{0x1122334455667788}), 0);
  EXPECT_EQ(out, 0x1122334455667788U);
}

TEST(request, gives_what_fits_into_a_wrong_length) {
  std::uint64_t out = 0;
  std::size_t length = 4;
  EXPECT_EQ(give({nullptr, nullptr, &out, &length, nullptr, 0}, std::uint64_t{0x1122334455667788}), EINVAL);
  EXPECT_EQ(length, 4U);
  EXPECT_EQ(out, 0x55667788U);
  std::uint64_t wide[2] = {};
  length = sizeof wide;
  EXPECT_EQ(give({nullptr, nullptr, wide, &length, nullptr, 0}, std::uint64_t{7}), EINVAL);
  EXPECT_EQ(length, 8U);
}

TEST(request, gives_nothing_to_who_wants_nothing) {
  std::uint64_t out = 5;
  EXPECT_EQ(give({nullptr, nullptr, &out, nullptr, nullptr, 0}, std::uint64_t{7}), 0);
  EXPECT_EQ(out, 5U);
}

TEST(request, takes_a_value_of_the_right_length_only) {
  const std::uint32_t written = 9;
  std::uint32_t value = 1;
  EXPECT_EQ(take({nullptr, nullptr, nullptr, nullptr, &written, 3}, value), EINVAL);
  EXPECT_EQ(value, 1U);
  EXPECT_EQ(take({nullptr, nullptr, nullptr, nullptr, nullptr, 0}, value), 0);
  EXPECT_EQ(value, 1U);
  EXPECT_EQ(require({nullptr, nullptr, nullptr, nullptr, nullptr, 0}, value), EINVAL);
  EXPECT_EQ(take({nullptr, nullptr, nullptr, nullptr, &written, 4}, value), 0);
  EXPECT_EQ(value, 9U);
}

TEST(request, refuses_values_where_there_are_none) {
  std::size_t length = 1;
  char byte = 0;
  EXPECT_EQ(refuse_write({nullptr, nullptr, nullptr, nullptr, nullptr, 1}), EPERM);
  EXPECT_EQ(refuse_write({nullptr, nullptr, nullptr, nullptr, &byte, 0}), EPERM);
  EXPECT_EQ(refuse_write({nullptr, nullptr, &byte, &length, nullptr, 0}), 0);
  EXPECT_EQ(refuse_read({nullptr, nullptr, nullptr, &length, nullptr, 0}), EPERM);
  EXPECT_EQ(refuse_values({nullptr, nullptr, &byte, nullptr, nullptr, 0}), EPERM);
  EXPECT_EQ(refuse_values({nullptr, nullptr, nullptr, nullptr, nullptr, 0}), 0);
  EXPECT_EQ(require_room<int>({nullptr, nullptr, &byte, &length, nullptr, 0}), EINVAL);
  EXPECT_EQ(length, 0U);
}

}  // namespace
}  // namespace tarn::jemalloc
