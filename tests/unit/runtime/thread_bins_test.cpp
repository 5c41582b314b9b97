// SPDX-License-Identifier: MIT
// thread_bins: the table grows, keeps its entries, and ends with the thread.
#include "runtime/thread_bins.hpp"

#include <gtest/gtest.h>

namespace tarn::engine {
namespace {

struct part {};
struct parts {
  part** bins;
  std::size_t count;
};
constinit thread_local parts own_parts{nullptr, 0};
part nobody;

struct whole : part {
  static parts& table() { return own_parts; }
  static part* no_bin() { return &nobody; }
};
using bins = thread_bins<whole>;

TEST(thread_bins, the_table_grows_and_keeps_its_entries) {
  whole first;
  whole last;
  ASSERT_TRUE(bins::grow_to(0));
  EXPECT_EQ(bins::at(0), nullptr);
  bins::set(0, &first);
  ASSERT_TRUE(bins::grow_to(1000));
  EXPECT_EQ(bins::at(0), &first);
  for (std::size_t i = 1; i <= 1000; ++i) EXPECT_EQ(own_parts.bins[i], &nobody);
  bins::set(1000, &last);
  bins::remove(&first);
  EXPECT_EQ(bins::at(0), nullptr);
  EXPECT_EQ(bins::at(1000), &last);
  bins::free_table();
  EXPECT_EQ(own_parts.count, 0U);
  EXPECT_FALSE(bins::grow_to(std::size_t{1} << 40)) << "larger than any block of metadata";
  EXPECT_EQ(own_parts.count, 0U);
}

}  // namespace
}  // namespace tarn::engine
