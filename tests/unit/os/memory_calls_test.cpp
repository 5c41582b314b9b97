// SPDX-License-Identifier: MIT
// Who listens at libc's memory calls: nobody in this process. Listeners: tests/guarantees/52_heard_by_*.cpp.
#include "os/memory_calls.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/units.hpp"
#include "os/memory.hpp"

namespace tarn::os {
namespace {

// If this fails, the functions of this libc begin with other instructions than memory_calls.cpp knows, and every process
// would be without the background thread.
TEST(memory_calls, of_libc_itself_are_heard_by_nobody) {
  EXPECT_FALSE(memory_calls_are_heard());
  EXPECT_FALSE(must_not_be_heard());
}

TEST(memory_calls, drop_and_unmap) {
  auto* const bytes = static_cast<char*>(reserve(1 * mib, system_page_size()));
  ASSERT_NE(bytes, nullptr);
  bytes[0] = 1;
  EXPECT_TRUE(drop_heard(bytes, 1 * mib));
  EXPECT_EQ(bytes[0], 0);
  EXPECT_TRUE(unmap_heard(bytes, 1 * mib));
  unsigned char resident = 0;
  EXPECT_EQ(mincore(bytes, system_page_size(), &resident), -1);
  EXPECT_FALSE(unmap_heard(bytes + 1, 1 * mib));
}

TEST(memory_calls, work_in_a_quiet_thread_where_nobody_listens) {
  void* const memory = reserve(1 * mib, system_page_size());
  const quiet_thread quiet;
  EXPECT_FALSE(must_not_be_heard());
  EXPECT_TRUE(unmap_heard(memory, 1 * mib));
}

}  // namespace
}  // namespace tarn::os
