// SPDX-License-Identifier: MIT
// realloc between size classes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "malloc/allocate.hpp"

namespace tarn {
namespace {

TEST(resize, realloc_keeps_the_content_across_all_sizes) {
  std::mt19937 random(8);
  std::vector<unsigned char> content;
  unsigned char* block = nullptr;
  for (int step = 0; step < 2000; ++step) {
    const std::size_t size = 1 + random() % (random() % 8 == 0 ? 3000000 : 5000);
    block = static_cast<unsigned char*>(block == nullptr ? allocate(size) : reallocate(block, size));
    ASSERT_NE(block, nullptr);
    const std::size_t kept = std::min(size, content.size());
    ASSERT_TRUE(kept == 0 || std::memcmp(block, content.data(), kept) == 0) << "to " << size << " bytes";
    content.resize(size);
    for (std::size_t i = kept; i < size; i += 997) content[i] = static_cast<unsigned char>(random());
    std::memcpy(block, content.data(), size);
  }
  deallocate(block);
}

TEST(resize, realloc_to_a_size_not_much_less_stays_where_it_is) {
  void* const block = allocate(1000);
  const std::size_t have = usable_size(block);
  EXPECT_EQ(reallocate(block, have), block);
  EXPECT_EQ(reallocate(block, have / 2 + 1), block);
  void* const less = reallocate(block, have / 4);
  EXPECT_LT(usable_size(less), have) << "a quarter is used: the other bytes must be freed";
  deallocate(less);
}

TEST(resize, realloc_does_not_move_a_block_of_the_smallest_class) {
  void* const block = allocate(1);
  const std::size_t have = usable_size(block);
  for (std::size_t size = have; size != 0; --size) EXPECT_EQ(reallocate(block, size), block) << size;
  deallocate(block);
}

}  // namespace
}  // namespace tarn
