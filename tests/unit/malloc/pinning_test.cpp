// SPDX-License-Identifier: MIT
// pinning: one block left in each span pins the rest of it; sums agree with the heap.
#include "malloc/pinning.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/hardened.hpp"
#include "engine/instance.hpp"

namespace tarn {
namespace {

constexpr std::size_t culprit_size = 336;

struct figures {
  tarn_pinned of_size{};
  tarn_pinned most{};
  std::uint64_t span_bytes = 0;
  std::uint64_t pinned = 0;
};

figures look() {
  figures all;
  tarn_visit_pinned(
      [](void* context, const tarn_pinned* one) {
        auto& to = *static_cast<figures*>(context);
        if (one->object_size == tarn_good_size(culprit_size)) to.of_size = *one;
        if (one->pinned_bytes > to.most.pinned_bytes) to.most = *one;
        to.span_bytes += one->span_bytes;
        to.pinned += one->pinned_bytes;
      },
      &all);
  return all;
}

TEST(pinning, the_size_that_pins_most_comes_out) {
  if constexpr (hardened_build) GTEST_SKIP() << "freed blocks wait in a quarantine";
  std::vector<void*> blocks;
  for (int i = 0; i < 40000; ++i) blocks.push_back(tarn_malloc(culprit_size));
  const figures full = look();
  EXPECT_LE(full.of_size.pinned_bytes, full.of_size.span_bytes / 10);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 100 != 0) tarn_free(blocks[i]);
  }
  tarn_trim(0);
  const figures sparse = look();
  EXPECT_EQ(sparse.most.object_size, tarn_good_size(culprit_size));
  EXPECT_GT(sparse.of_size.pinned_bytes, sparse.of_size.span_bytes / 2);
  EXPECT_EQ(sparse.of_size.pinned_bytes,
            sparse.of_size.span_bytes - sparse.of_size.taken * sparse.of_size.object_size);
  std::uint64_t shares = 0;
  for (std::size_t i = 0; i < blocks.size(); i += 100) shares += tarn_pinned_by(blocks[i]);
  EXPECT_NEAR(static_cast<double>(shares), static_cast<double>(sparse.of_size.pinned_bytes),
              0.05 * static_cast<double>(sparse.of_size.pinned_bytes));
  EXPECT_LE(sparse.span_bytes, engine::heap.in_use_bytes());
  for (std::size_t i = 0; i < blocks.size(); i += 100) tarn_free(blocks[i]);
}

TEST(pinning, a_pointer_to_no_object_pins_nothing) {
  int on_stack = 0;
  EXPECT_EQ(tarn_pinned_by(nullptr), 0U);
  EXPECT_EQ(tarn_pinned_by(&on_stack), 0U);
  void* const large = tarn_malloc(1 << 20);
  EXPECT_EQ(tarn_pinned_by(large), 0U);
  tarn_free(large);
}

}  // namespace
}  // namespace tarn
