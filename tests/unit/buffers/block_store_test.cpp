// SPDX-License-Identifier: MIT
// block_store: blocks of all sizes, found by their address, in several threads; figures, trim, misuse.
#include "tarn/detail/block_store.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

using tarn::detail::block_store;

TEST(block_store, sizes_waste_at_most_a_sixteenth) {
  using namespace tarn::detail::block_sizes;
  static_assert(holds());
  for (std::size_t bytes = least; bytes <= largest; ++bytes) {
    ASSERT_LE((size_of(index_of(bytes)) - bytes) * steps_per_doubling, bytes);
  }
}

struct stored_block {
  unsigned char* bytes;
  std::size_t size;
  unsigned char mark;
};
bool is_whole(const stored_block& block) {
  for (std::size_t at = 0; at < block.size; at += 1 + block.size / 50) {
    if (block.bytes[at] != block.mark) return false;
  }
  return block.bytes[block.size - 1] == block.mark;
}

TEST(block_store, threads_exchange_blocks_of_all_sizes) {
  block_store store("test blocks");
  std::mutex mutex;
  std::vector<stored_block> exchanged;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int step = 0; step < 4000; ++step) {
      const std::size_t size = 1 + random() % (std::size_t{1} << (4 + random() % 15));
      auto* const bytes = static_cast<unsigned char*>(store.allocate(size));
      ASSERT_NE(bytes, nullptr);
      const std::size_t usable = store.usable_bytes(bytes, size);
      ASSERT_GE(usable, size);
      const auto mark = static_cast<unsigned char>(random());
      std::memset(bytes, mark, usable);
      stored_block other{nullptr, 0, 0};
      {
        const std::scoped_lock lock(mutex);
        exchanged.push_back({bytes, size, mark});
        if (exchanged.size() > 100) {
          std::swap(exchanged[random() % exchanged.size()], exchanged.back());
          other = exchanged.back();
          exchanged.pop_back();
        }
      }
      if (other.bytes == nullptr) continue;
      ASSERT_TRUE(is_whole(other));
      store.deallocate(other.bytes);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) threads.emplace_back(work, t);
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(store.stats().live_blocks, exchanged.size());
  for (const stored_block& block : exchanged) {
    EXPECT_TRUE(is_whole(block));
    store.deallocate(block.bytes);
  }
  EXPECT_EQ(store.stats().live_blocks, 0U);
  const auto before = store.stats().bytes;
  store.trim();
  EXPECT_LT(store.stats().bytes, before);
}

TEST(block_store, no_memory_is_null) {
  block_store store("test blocks");
  EXPECT_EQ(store.allocate(SIZE_MAX / 2), nullptr);
  store.deallocate(nullptr);
}

}  // namespace
