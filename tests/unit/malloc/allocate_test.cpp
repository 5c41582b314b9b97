// SPDX-License-Identifier: MIT
// allocate() and deallocate(): contents of blocks, and the span that a block comes from.
#include "malloc/allocate.hpp"
#include "../bytes.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace tarn {
namespace {

struct stamped {
  unsigned char* block;
  std::size_t size;
  unsigned char stamp;
};

// Random steps. The content of every block is checked before it is freed, which shows that no two blocks overlap.
TEST(allocate, blocks_keep_their_content) {
  std::mt19937 random(9);
  std::vector<stamped> live;
  for (int step = 0; step < 60000; ++step) {
    if (live.size() < 1500 && random() % 8 < 5) {
      const std::size_t size = random() % (random() % 64 == 0 ? 400000 : 1500);
      const auto stamp = static_cast<unsigned char>(random());
      auto* const block = static_cast<unsigned char*>(allocate(size));
      ASSERT_NE(block, nullptr);
      std::memset(block, stamp, size);
      live.push_back({block, size, stamp});
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      const stamped s = live.back();
      live.pop_back();
      ASSERT_TRUE(testing_support::all_bytes_are(s.block, s.size, s.stamp));
      deallocate(s.block);
    }
  }
  for (const stamped& s : live) deallocate(s.block);
  engine::heap.validate();
}

TEST(allocate, an_object_lies_in_a_span_of_its_class) {
  for (std::size_t size = 0; size <= largest_class_size; size = size * 9 / 8 + 1) {
    void* const block = allocate(size);
    EXPECT_EQ(engine::map.class_of(address_of(block)), class_of_size(size));
    deallocate(block);
  }
  void* const large = allocate(largest_class_size + 1);
  EXPECT_EQ(engine::map.class_of(address_of(large)), 0U);
  deallocate(large);
}

TEST(allocate, null_is_freed_without_effect) { deallocate(nullptr); }

}  // namespace
}  // namespace tarn
