// SPDX-License-Identifier: MIT
// errno at the end of a scope is what it was at its start.
#include "os/errno_keeper.hpp"

#include <gtest/gtest.h>

namespace tarn::os {
namespace {

TEST(errno_keeper, restores_errno_at_the_end_of_its_scope_only) {
  errno = EDOM;
  {
    const errno_keeper keeper;
    errno = ENOMEM;
    EXPECT_EQ(errno, ENOMEM);
  }
  EXPECT_EQ(errno, EDOM);
}

}  // namespace
}  // namespace tarn::os
