// SPDX-License-Identifier: MIT
// upstream_blocks: what is asked of the upstream resource and given back to it, and the ring of links. A public header
// cannot check the ring itself: the message is the engine's.
#include "tarn/detail/upstream_blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory_resource>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "broken_invariant.hpp"
#include "os/invariant.hpp"

namespace tarn::detail {
namespace {

// Remembers what it has given, and fails from the call number `fails_at` on.
class recording_resource final : public std::pmr::memory_resource {
 public:
  struct shape {
    std::size_t bytes;
    std::size_t alignment;
  };
  std::map<void*, shape> live;
  std::size_t wrong_returns = 0;
  std::size_t calls = 0;
  std::size_t fails_at = ~std::size_t{0};

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::scoped_lock lock(mutex_);
    if (++calls >= fails_at) throw std::bad_alloc();
    void* const block = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    live[block] = {bytes, alignment};
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    const std::scoped_lock lock(mutex_);
    const auto found = live.find(block);
    if (found == live.end() || found->second.bytes != bytes || found->second.alignment != alignment) {
      ++wrong_returns;
      return;
    }
    live.erase(found);
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::mutex mutex_;
};

class upstream_blocks_test : public testing::Test {
 protected:
  ~upstream_blocks_test() override {
    blocks_.release();
    EXPECT_TRUE(upstream_.live.empty());
    EXPECT_EQ(upstream_.wrong_returns, 0U);
  }
  recording_resource upstream_;
  upstream_blocks<no_mutex> blocks_{&upstream_};
};

TEST_F(upstream_blocks_test, blocks_are_aligned_and_whole) {
  for (const std::size_t alignment : {1U, 2U, 8U, 16U, 4096U}) {
    for (const std::size_t bytes : {0U, 1U, 7U, 8U, 9U, 100'000U}) {
      void* const block = blocks_.allocate(bytes, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
      EXPECT_GE(upstream_.live.at(block).bytes, bytes);
      EXPECT_GE(upstream_.live.at(block).alignment, alignment);
      std::memset(block, 0xff, bytes);
    }
  }
  EXPECT_EQ(blocks_.upstream(), &upstream_);
}

TEST_F(upstream_blocks_test, blocks_go_back_in_any_order_with_their_bytes_and_alignments) {
  struct block {
    void* memory;
    std::size_t bytes;
  };
  std::mt19937 random(3);
  std::vector<block> live;
  for (int step = 0; step < 3000; ++step) {
    if (live.empty() || random() % 3 != 0) {
      const std::size_t bytes = random() % 500;
      live.push_back({blocks_.allocate(bytes, std::size_t{1} << random() % 7), bytes});
      std::memset(live.back().memory, 0xff, bytes);
    } else {
      std::swap(live[random() % live.size()], live.back());
      blocks_.deallocate(live.back().memory, live.back().bytes);
      live.pop_back();
    }
    ASSERT_EQ(upstream_.live.size(), live.size());
  }
  blocks_.release();
  EXPECT_TRUE(upstream_.live.empty());
  blocks_.release();
  EXPECT_NE(blocks_.allocate(1, 1), nullptr) << "it can be used after a release";
}

TEST_F(upstream_blocks_test, what_cannot_be_had_leaves_nothing_behind) {
  static_cast<void>(blocks_.allocate(10, 8));
  upstream_.fails_at = 2;
  EXPECT_THROW(static_cast<void>(blocks_.allocate(10, 8)), std::bad_alloc);
  EXPECT_EQ(upstream_.live.size(), 1U);
  const std::size_t calls = upstream_.calls;
  EXPECT_THROW(static_cast<void>(blocks_.allocate(SIZE_MAX / 2 + 1, 8)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(blocks_.allocate(SIZE_MAX, 1)), std::bad_alloc);
  EXPECT_EQ(upstream_.calls, calls) << "the length does not overflow";
}

TEST(upstream_blocks, threads_share_one_with_a_mutex) {
  recording_resource upstream;
  {
    upstream_blocks<std::mutex> blocks(&upstream);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      threads.emplace_back([&blocks] {
        std::vector<void*> mine;
        for (int i = 0; i < 2000; ++i) {
          mine.push_back(blocks.allocate(24, 8));
          if (i % 3 == 0) {
            blocks.deallocate(mine.front(), 24);
            mine.erase(mine.begin());
          }
        }
      });
    }
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(upstream.live.size(), 3U * (2000 - 667));
  }
  EXPECT_TRUE(upstream.live.empty());
  EXPECT_EQ(upstream.wrong_returns, 0U);
}

// ---- the ring, as the picture in the header has it ----

struct ring_link {
  ring_link* previous;
  ring_link* next;
  void* block;
  std::size_t alignment;
};

ring_link* link_of(void* block, std::size_t bytes) {
  return reinterpret_cast<ring_link*>(static_cast<char*>(block) + (bytes + 7) / 8 * 8);
}

// Checks the ring that `first` is in: `blocks` links and ring_.
void validate(const ring_link* first, std::size_t blocks) {
  std::size_t links = 0;
  const ring_link* l = first;
  do {
    TARN_INVARIANT("upstream_blocks", first, l->next->previous == l);
    TARN_INVARIANT("upstream_blocks", first, ++links <= blocks + 1);
    l = l->next;
  } while (l != first);
  TARN_INVARIANT("upstream_blocks", first, links == blocks + 1);
}

TEST_F(upstream_blocks_test, finds_a_broken_invariant) {
  void* const memory[] = {blocks_.allocate(10, 8), blocks_.allocate(20, 8), blocks_.allocate(30, 8)};
  ring_link* const links[] = {link_of(memory[0], 10), link_of(memory[1], 20), link_of(memory[2], 30)};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(links[i]->block, memory[i]);
  validate(links[0], 3);
  ring_link* const next = links[1]->next;
  links[1]->next = links[2];
  EXPECT_BROKEN(validate(links[0], 3), "upstream_blocks", "l->next->previous == l", links[0]);
  links[1]->next = next;
  EXPECT_BROKEN(validate(links[0], 2), "upstream_blocks", "++links <= blocks + 1", links[0]);
  blocks_.deallocate(memory[1], 20);
  validate(links[0], 2);
  EXPECT_BROKEN(validate(links[0], 3), "upstream_blocks", "links == blocks + 1", links[0]);
}

}  // namespace
}  // namespace tarn::detail
