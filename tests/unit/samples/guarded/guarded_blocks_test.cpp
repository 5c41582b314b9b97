// SPDX-License-Identifier: MIT
// guarded_blocks: placement next to guards, use of slots, and the block nearest to an address.
#include "samples/guarded/guarded_blocks.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "broken_invariant.hpp"
#include "os/memory.hpp"

namespace tarn {

class guarded_blocks_test_access {
 public:
  static std::uint8_t& live_of_class(guarded_blocks& blocks, unsigned c) { return blocks.of_class_[c]; }
  static std::uint8_t* queue(guarded_blocks& blocks) { return blocks.queue_; }
};

namespace {

constexpr unsigned some_class = 5;

class guarded_blocks_test : public testing::Test {
 protected:
  char* allocate(std::size_t size, unsigned size_class = some_class) {
    return static_cast<char*>(blocks_->allocate(size, size_class));
  }
  std::vector<char*> allocate_all(unsigned size_class) {
    std::vector<char*> out;
    while (char* block = allocate(100, size_class)) out.push_back(block);
    return out;
  }

  void SetUp() override { blocks_->set_per_second(0); }

  std::unique_ptr<guarded_blocks> blocks_ = std::make_unique<guarded_blocks>();
};

class guarded_rate_test : public guarded_blocks_test {
 protected:
  // How many of `tries` blocks of the class are handed out, each freed at once.
  std::size_t served(unsigned size_class, std::size_t tries) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < tries; ++i) {
      if (char* const block = allocate(100, size_class)) {
        ++count;
        blocks_->deallocate(block);
      }
    }
    return count;
  }
};

TEST_F(guarded_rate_test, many_blocks_in_a_second_are_refused_but_not_the_first_of_a_class) {
  blocks_->set_per_second(1);
  constexpr std::size_t burst = rate_limit::burst;
  const std::size_t first = served(1, 100);
  EXPECT_GE(first, 1 + burst);
  EXPECT_LE(first, 1 + burst + 2) << "in a slow run, some more were earned meanwhile";
  for (unsigned c = 2; c < 20; ++c) {
    const std::size_t of_class = served(c, 5);
    EXPECT_GE(of_class, 1U) << c;
    EXPECT_LE(of_class, 3U) << c;
  }
}

TEST_F(guarded_rate_test, without_a_limit_all_are_served) {
  blocks_->set_per_second(0);
  EXPECT_EQ(served(1, 100), 100U);
}

TEST_F(guarded_blocks_test, blocks_are_whole_and_end_or_begin_at_a_guard) {
  std::size_t at_end = 0;
  for (std::size_t size = 1; size <= guarded_blocks::largest_size; size += size < 300 ? 1 : 97) {
    char* const block = allocate(size);
    ASSERT_NE(block, nullptr) << size;
    EXPECT_EQ(blocks_->size_of(block), size);
    EXPECT_EQ(blocks_->size_of(block + 1), 0U);
    EXPECT_EQ(address_of(block) % (size < 16 ? 8 : 16), 0U) << size;
    const std::size_t behind = -(address_of(block) + size) % os::system_page_size();
    const bool is_at_end = behind < (size < 16 ? 8U : 16U);
    EXPECT_TRUE(is_at_end || address_of(block) % os::system_page_size() == 0) << size;
    at_end += is_at_end ? 1 : 0;
    std::memset(block, 1, size);
    blocks_->deallocate(block);
  }
  EXPECT_GT(at_end, 200U);
}

TEST_F(guarded_blocks_test, a_size_has_the_alignment_of_its_largest_power_of_two) {
  for (std::size_t size = 16; size <= 8 * kib; size *= 2) {
    for (int i = 0; i < 8; ++i) {
      char* const block = allocate(size);
      EXPECT_EQ(address_of(block) % size, 0U);
      blocks_->deallocate(block);
    }
  }
}

TEST_F(guarded_blocks_test, other_sizes_are_refused) {
  EXPECT_EQ(allocate(0), nullptr);
  EXPECT_EQ(allocate(guarded_blocks::largest_size + 1), nullptr);
  EXPECT_EQ(blocks_->samples(), 0U);
}

TEST_F(guarded_blocks_test, a_class_leaves_slots_to_others) {
  std::size_t all = 0;
  std::size_t last = SIZE_MAX;
  for (unsigned c = 1; c < 6; ++c) {
    const std::size_t count = allocate_all(c).size();
    EXPECT_GT(count, 0U) << c;
    EXPECT_LE(count, last) << c;
    last = count;
    all += count;
  }
  EXPECT_LT(all, guarded_blocks::most_slots);
  EXPECT_EQ(blocks_->live_bytes(), all * 100);
}

TEST_F(guarded_blocks_test, a_slot_waits_until_all_others_have_been_used) {
  char* const first = allocate(100);
  ASSERT_NE(first, nullptr);
  blocks_->deallocate(first);
  std::set<std::uintptr_t> pages;
  const auto page_of = [](const char* block) { return address_of(block) / guarded_blocks::largest_size; };
  for (;;) {
    char* const block = allocate(100);
    blocks_->deallocate(block);
    if (page_of(block) == page_of(first)) break;
    EXPECT_TRUE(pages.insert(page_of(block)).second);
  }
  EXPECT_GE(pages.size() + 1, std::min(guarded_blocks::most_slots,
                                       mib / std::max(guarded_blocks::largest_size, os::system_page_size())));
}

TEST_F(guarded_blocks_test, the_memory_of_freed_blocks_goes_back) {
  unsigned char resident = 1;
  char* const probe = allocate(100);
  void* const page = reinterpret_cast<void*>(align_down(address_of(probe), os::system_page_size()));
  ASSERT_TRUE(os::find_resident(page, os::system_page_size(), &resident));
  EXPECT_EQ(resident & 1U, 1U);
  if (!os::purge(page, os::system_page_size())) GTEST_SKIP() << "the system keeps the memory";
  // The filling is gone too, so this block stays.
  for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, guarded_blocks::largest_size}) {
    char* const block = allocate(size);
    std::memset(block, 1, size);
    blocks_->deallocate(block);
    for (std::size_t at = 0; at < size; at += os::system_page_size()) {
      void* const freed = reinterpret_cast<void*>(align_down(address_of(block + at), os::system_page_size()));
      ASSERT_TRUE(os::find_resident(freed, os::system_page_size(), &resident));
      EXPECT_EQ(resident & 1U, 0U) << size << " " << at;
    }
  }
}

TEST_F(guarded_blocks_test, the_nearest_block_is_found_from_all_sides) {
  char* const a = allocate(100);
  char* const b = allocate(100);
  EXPECT_EQ(blocks_->nearest(address_of(a) + 50)->start, address_of(a));
  EXPECT_EQ(blocks_->nearest(address_of(a) + 100)->start, address_of(a));
  EXPECT_EQ(blocks_->nearest(address_of(a) + 4095)->start, address_of(a));
  EXPECT_EQ(blocks_->nearest(address_of(b) - 4096)->start, address_of(b));
  EXPECT_TRUE(blocks_->contains(a));
  EXPECT_FALSE(blocks_->contains(&some_class));
  blocks_->deallocate(a);
  const guarded_slot* const slot = blocks_->nearest(address_of(a));
  EXPECT_EQ(slot->state, guarded_state::freed);
  EXPECT_EQ(slot->freed.thread, gettid());
}

TEST_F(guarded_blocks_test, the_stacks_lead_here) {
  char* const block = allocate(100);
  const call_stack& stack = blocks_->nearest(address_of(block))->allocated;
  EXPECT_GT(stack.count, 4U);
  const auto here =
      reinterpret_cast<std::uintptr_t>(__builtin_extract_return_addr(__builtin_return_address(0)));
  EXPECT_TRUE(std::find(stack.frames, stack.frames + stack.count, here) != stack.frames + stack.count);
}

TEST_F(guarded_blocks_test, finds_a_broken_invariant) {
  char* const block = allocate(100);
  blocks_->validate_locked();
  guarded_slot* const slot = const_cast<guarded_slot*>(blocks_->nearest(address_of(block)));
  blocks_->deallocate(block);
  slot->state.store(guarded_state::live);
  EXPECT_BROKEN(blocks_->validate_locked(), "guarded_blocks", "state != guarded_state::live", blocks_.get());
  slot->state.store(guarded_state::freed);
  ++guarded_blocks_test_access::live_of_class(*blocks_, some_class);
  EXPECT_BROKEN(blocks_->validate_locked(), "guarded_blocks", "queued_ + taken == slot_count_",
                blocks_.get());
  --guarded_blocks_test_access::live_of_class(*blocks_, some_class);
  guarded_blocks_test_access::queue(*blocks_)[0] = guarded_blocks_test_access::queue(*blocks_)[1];
  EXPECT_BROKEN(blocks_->validate_locked(), "guarded_blocks",
                "index < slot_count_ && (seen >> index & 1U) == 0", blocks_.get());
}

}  // namespace
}  // namespace tarn
