// SPDX-License-Identifier: MIT
// block_store: the size of the block for each request, reuse by size, and requests beyond the limits.
#include "pages/block_store.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tarn {
namespace {

class block_store_test : public testing::Test {
 protected:
  // The bytes that the arena gives for a request of a size that has not been used yet.
  std::size_t bytes_for(std::size_t request) {
    const std::size_t before = arena_.used();
    EXPECT_NE(store_.allocate(request), nullptr);
    return arena_.used() - before;
  }

  metadata_arena arena_;
  block_store store_{arena_};
};

TEST_F(block_store_test, a_request_takes_the_next_power_of_two) {
  EXPECT_EQ(bytes_for(0), block_store::least);
  EXPECT_EQ(bytes_for(1), block_store::least);
  for (std::size_t size = block_store::least; size < block_store::most; size *= 2) {
    EXPECT_EQ(bytes_for(size), size);
    EXPECT_EQ(bytes_for(size + 1), 2 * size);
  }
}

TEST_F(block_store_test, blocks_share_no_cache_line) {
  for (std::size_t size = 1; size <= 4 * kib; size *= 2) {
    EXPECT_EQ(address_of(store_.allocate(size)) % block_store::least, 0U) << size;
    EXPECT_EQ(address_of(store_.allocate(2 * block_store::least + size)) % separation, 0U) << size;
  }
}

TEST_F(block_store_test, more_than_the_largest_block_is_null) {
  const std::size_t before = arena_.used();
  EXPECT_EQ(store_.allocate(block_store::most + 1), nullptr);
  EXPECT_EQ(store_.allocate(~std::size_t{0}), nullptr);
  EXPECT_EQ(arena_.used(), before);
}

TEST_F(block_store_test, a_block_serves_requests_of_its_size_alone) {
  void* const block = store_.allocate(129);
  store_.deallocate(block, 129);
  EXPECT_NE(store_.allocate(128), block);
  EXPECT_NE(store_.allocate(257), block);
  EXPECT_EQ(store_.allocate(256), block);
  EXPECT_NE(store_.allocate(256), block);
}

TEST_F(block_store_test, fork_visits_the_lock_of_each_size_once) {
  static std::set<const os::mutex*> locks;
  static std::size_t visits;
  store_.walk_locks({.visit = [](os::mutex& lock) {
    locks.insert(&lock);
    ++visits;
  }});
  std::size_t sizes = 1;
  for (std::size_t size = block_store::least; size != block_store::most; size *= 2) ++sizes;
  EXPECT_EQ(visits, sizes);
  EXPECT_EQ(locks.size(), sizes);
}

}  // namespace
}  // namespace tarn
