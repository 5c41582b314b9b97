// SPDX-License-Identifier: MIT
// The functions of tarn/detail/pages.hpp: lengths, requests that cannot be met, and pointers that are none of theirs.
#include "tarn/detail/pages.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "../../../death/expect_abort.hpp"
#include "base/units.hpp"

namespace tarn {
namespace {

TEST(pages, whole_pages_that_can_be_written_to) {
  for (const std::size_t asked : {std::size_t{0}, std::size_t{1}, page_size, page_size + 1, 3 * mib}) {
    std::size_t bytes = asked;
    void* const memory = tarn_pages_take(&bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(address_of(memory) % page_size, 0U);
    EXPECT_EQ(bytes % page_size, 0U);
    EXPECT_GE(bytes, asked == 0 ? page_size : asked);
    EXPECT_LT(bytes, asked + 2 * page_size);
    std::memset(memory, 1, bytes);
    tarn_pages_give(memory);
  }
}

TEST(pages, more_than_there_is) {
  for (const std::size_t asked : {(std::size_t{1} << 44) + 1, ~std::size_t{0}}) {
    std::size_t bytes = asked;
    errno = 0;
    EXPECT_EQ(tarn_pages_take(&bytes), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(bytes, asked);
  }
}

TEST(pages, only_what_was_taken_is_given_back_and_only_once) {
  std::size_t bytes = 2 * page_size;
  char* const memory = static_cast<char*>(tarn_pages_take(&bytes));
  ASSERT_NE(memory, nullptr);
  const char* const text = "pages returned that were not allocated";
  EXPECT_TARN_ABORT(tarn_pages_give(memory + page_size), text, memory + page_size);
  EXPECT_TARN_ABORT(tarn_pages_give(memory + 16), text, memory + 16);
  EXPECT_TARN_ABORT(tarn_pages_give(&bytes), text, &bytes);
  EXPECT_TARN_ABORT((tarn_pages_give(memory), tarn_pages_give(memory)), text, memory);
  tarn_pages_give(memory);
}

}  // namespace
}  // namespace tarn
