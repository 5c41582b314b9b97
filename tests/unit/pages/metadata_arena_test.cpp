// SPDX-License-Identifier: MIT
// metadata_arena and metadata_pool: aligned, zeroed, disjoint blocks, and their reuse.
#include "pages/metadata_arena.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../system_probes.hpp"
#include "broken_invariant.hpp"
#include "mapping_flags.hpp"

namespace tarn {

class metadata_arena_test_access {
 public:
  static std::uintptr_t& next(metadata_arena& arena) { return arena.open_.next; }
  static std::uintptr_t& limit(metadata_arena& arena) { return arena.limit_; }
};

namespace {

using range = std::pair<std::uintptr_t, std::uintptr_t>;

bool disjoint(std::vector<range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) return false;
  }
  return true;
}

// If the system's huge pages are `always`, the first structure that a program touches would take 2 MiB.
TEST(metadata_arena, is_never_on_huge_pages) {
  if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
    GTEST_SKIP() << "this kernel has no huge pages";
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  metadata_arena arena;
  for (std::size_t total = 0; total < 24 * mib; total += mib) {
    const void* const block = arena.allocate(mib, 64);
    ASSERT_NE(block, nullptr);
    const std::string flags = mapping_flags(address_of(block));
    if (flags.empty()) GTEST_SKIP() << "/proc/self/smaps has no VmFlags";
    EXPECT_NE(flags.find(" nh "), std::string::npos) << flags;
  }
}

// One call less, and one mapping less.
TEST(metadata_arena, is_not_opted_out_where_huge_pages_are_not_given_unasked) {
  metadata_arena arena;
  arena.set_never_huge();
  const std::string flags = mapping_flags(address_of(arena.allocate(1, 1)));
  if (flags.empty()) GTEST_SKIP() << "/proc/self/smaps has no VmFlags";
  EXPECT_EQ(flags.find(" nh "), std::string::npos) << flags;
}

TEST(metadata_arena, what_is_not_open_goes_back_once) {
  metadata_arena empty;
  EXPECT_FALSE(empty.give_back_unopened());
  metadata_arena arena;
  auto* const first = static_cast<char*>(arena.allocate(1, 1));
  ASSERT_NE(first, nullptr);
  const std::uintptr_t limit = metadata_arena_test_access::limit(arena);
  const auto is_mapped = [](std::uintptr_t address) {
    unsigned char resident = 0;
    return mincore(reinterpret_cast<void*>(address), 1, &resident) == 0;
  };
  const std::uintptr_t last_page = limit - largest_system_page;
  ASSERT_TRUE(is_mapped(last_page));
  EXPECT_TRUE(arena.give_back_unopened());
  EXPECT_FALSE(is_mapped(last_page));
  EXPECT_FALSE(is_mapped(limit)) << "the guard behind the region";
  EXPECT_TRUE(is_mapped(metadata_arena_test_access::limit(arena))) << "the guard behind what is open";
  EXPECT_FALSE(arena.give_back_unopened());
  *first = 1;
  auto* const longer = static_cast<char*>(arena.allocate(9 * mib, 64));
  ASSERT_NE(longer, nullptr);
  longer[9 * mib - 1] = 1;
  auto* const next = static_cast<char*>(arena.allocate(mib / 2, 64));
  ASSERT_NE(next, nullptr);
  EXPECT_LE(metadata_arena_test_access::limit(arena) - address_of(next), mib) << "others lack address space";
}

TEST(metadata_arena, small_blocks_lie_together) {
  metadata_arena arena;
  const std::uintptr_t first = address_of(arena.allocate(100, 8));
  for (std::size_t i = 1; i < 100; ++i) {
    ASSERT_NE(arena.allocate_sparse(16 * kib, 4 * kib), nullptr);
    EXPECT_EQ(address_of(arena.allocate(96, 8)), first + 8 + i * 96) << i;
  }
}

TEST(metadata_arena, blocks_are_aligned_zeroed_and_disjoint) {
  metadata_arena arena;
  std::mt19937 random(4);
  std::vector<range> ranges;
  std::size_t total = 0;
  while (total < 12 * mib) {
    const std::size_t bytes = 1 + random() % (random() % 50 == 0 ? 600 * kib : 3000);
    const std::size_t alignment = std::size_t{1} << (random() % 13);
    auto* const block = static_cast<unsigned char*>(arena.allocate(bytes, alignment));
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(address_of(block) % alignment, 0U);
    ASSERT_TRUE(std::all_of(block, block + bytes, [](unsigned char c) { return c == 0; }));
    std::memset(block, 0xff, bytes);
    ranges.emplace_back(address_of(block), address_of(block) + bytes);
    total += bytes;
    ASSERT_EQ(arena.used(), total);
  }
  EXPECT_TRUE(disjoint(ranges));
}

TEST(metadata_arena, a_block_longer_than_a_chunk) {
  metadata_arena arena;
  auto* const block = static_cast<char*>(arena.allocate(9 * mib, cache_line));
  ASSERT_NE(block, nullptr);
  block[9 * mib - 1] = 1;
}

TEST(metadata_arena, what_was_ensured_needs_no_further_chunk) {
  metadata_arena arena;
  ASSERT_TRUE(arena.ensure_available(3 * mib));
  std::uintptr_t last = 0;
  for (int i = 0; i < 3 * 1024; ++i) {
    const std::uintptr_t block = address_of(arena.allocate(kib, 8));
    ASSERT_TRUE(i == 0 || block == last + kib) << "block " << i << " is in another chunk";
    last = block;
  }
  EXPECT_FALSE(arena.ensure_available(std::size_t{1} << 60));
}

TEST(metadata_arena, too_much_is_null) {
  metadata_arena arena;
  EXPECT_EQ(arena.allocate(std::size_t{1} << 60, 8), nullptr);
  EXPECT_NE(arena.allocate(100, 8), nullptr) << "a failure must leave the arena usable";
  EXPECT_EQ(arena.used(), 100U);
}

TEST(metadata_arena, threads_get_blocks_of_their_own) {
  metadata_arena arena;
  std::vector<range> ranges[4];
  std::vector<std::thread> threads;
  for (std::vector<range>& mine : ranges) {
    threads.emplace_back([&arena, &mine] {
      for (int i = 0; i < 3000; ++i) {
        void* const block = arena.allocate(1000, 16);
        std::memset(block, 1, 1000);
        mine.emplace_back(address_of(block), address_of(block) + 1000);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<range> all;
  for (const std::vector<range>& mine : ranges) all.insert(all.end(), mine.begin(), mine.end());
  EXPECT_TRUE(disjoint(all));
  EXPECT_EQ(arena.used(), 4U * 3000 * 1000);
}

TEST(metadata_arena, finds_a_broken_invariant) {
  metadata_arena arena;
  ASSERT_NE(arena.allocate(1, 1), nullptr);
  arena.validate_locked();
  metadata_arena_test_access::next(arena) += gib;
  EXPECT_BROKEN(arena.validate_locked(), "metadata_arena", "open_.next <= open_.end", &arena);
  metadata_arena_test_access::next(arena) -= gib;
  metadata_arena_test_access::limit(arena) = 0;
  EXPECT_BROKEN(arena.validate_locked(), "metadata_arena", "open_.end <= limit_", &arena);
}

}  // namespace
}  // namespace tarn
