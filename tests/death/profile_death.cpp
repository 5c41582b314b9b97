// SPDX-License-Identifier: MIT
// Wrong frees of blocks that the heap profile follows end the process with a line that names the pointer. The
// environment makes it follow every block.
#include <gtest/gtest.h>

#include "expect_abort.hpp"
#include "tarn/malloc.h"

namespace {

using tarn::testing_support::hidden;

void release(void* p) { tarn_free(hidden(p)); }

struct profile_death : testing::TestWithParam<std::size_t> {
  char* block = static_cast<char*>(tarn_malloc(GetParam()));
  ~profile_death() override { tarn_free(block); }
};

const char* const wrong = "double free, or invalid free of a pointer into a block";

TEST_P(profile_death, of_a_pointer_into_a_block) {
  for (const std::ptrdiff_t distance : {1, 8, 24})
    EXPECT_TARN_ABORT(release(block + distance), wrong, block + distance);
}

TEST_P(profile_death, size_and_realloc_of_a_pointer_into_a_block) {
  EXPECT_TARN_ABORT(static_cast<void>(tarn_usable_size(hidden(block + 8))),
                    "size asked of a pointer that is not a block", block + 8);
  EXPECT_TARN_ABORT(static_cast<void>(tarn_realloc(hidden(block + 8), 10)),
                    "realloc of a pointer that is not a block", block + 8);
}

TEST_P(profile_death, double_free) {
  const char* const after = GetParam() > 2048 ? "double free, or a pointer into memory that is free" : wrong;
  EXPECT_TARN_ABORT(
      {
        release(block);
        release(block);
      },
      after, block);
}

INSTANTIATE_TEST_SUITE_P(sizes, profile_death, testing::Values(32, 100, 2000, 5000, 200000));

}  // namespace
