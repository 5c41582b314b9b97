// SPDX-License-Identifier: MIT
// figures: they stand still until the next refresh, and keep their order.
#include "malloc/jemalloc/figures.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "malloc/allocate.hpp"

namespace tarn::jemalloc {
namespace {

std::size_t allocated() {
  return from_figures([](const figures& f) { return f.allocated; });
}

TEST(figures, follow_the_heap_at_a_refresh) {
  refresh();
  const std::size_t before = allocated();
  std::vector<void*> blocks;
  for (int i = 0; i < 10000; ++i) blocks.push_back(allocate(200));
  blocks.push_back(allocate(5 * mib));
  EXPECT_EQ(allocated(), before);
  const auto epoch = from_figures([](const figures& f) { return f.epoch; });
  refresh();
  EXPECT_EQ(from_figures([](const figures& f) { return f.epoch; }), epoch + 1);
  // One in 65,536 is a guarded block, which has the bytes that were requested.
  EXPECT_GE(allocated(), before + 9999 * 208 + 200 + 5 * mib);
  EXPECT_TRUE(
      from_figures([](const figures& f) { return f.allocated <= f.active && f.active <= f.resident; }));
  EXPECT_GE(from_figures([](const figures& f) { return f.bins[class_of_size(200) - 1].regions; }), 10000U);
  for (void* const block : blocks) deallocate(block);
  refresh();
  EXPECT_LT(allocated(), before + mib);
}

}  // namespace
}  // namespace tarn::jemalloc
