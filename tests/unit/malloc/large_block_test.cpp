// SPDX-License-Identifier: MIT
// large_block: finding, zeroing, growing, moving, shrinking and freeing blocks above the size classes.
#include "malloc/large_block.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/compiler.hpp"
#include "engine/engine.hpp"
#include "malloc/block.hpp"
#include "os/memory.hpp"
#include "tarn/malloc.h"

#include "../../system_probes.hpp"
#include "../bytes.hpp"

namespace tarn {
namespace {

using testing_support::all_bytes_are;

std::size_t resident_bytes(const void* start, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / os::system_page_size());
  if (mincore(const_cast<void*>(start), bytes, pages.data()) != 0) return SIZE_MAX;
  return os::system_page_size() *
         static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](auto c) { return c & 1; }));
}

// Nearly the largest possible block, but at most three quarters of the machine's memory: the system's overcommit policy
// refuses more.
const std::size_t enormous =
    std::min((std::size_t{1} << 44) - mib, align_down(os::machine_bytes() / 4 * 3, mib));

TEST(large_block, is_found_by_its_start_only) {
  auto* const block = static_cast<char*>(large_block::allocate(mib, 1, large_block::purpose::any));
  ASSERT_NE(block, nullptr);
  EXPECT_NE(classify(block).large(), nullptr);
  EXPECT_EQ(classify(block + 16).large(), nullptr);
  EXPECT_EQ(classify(block + mib - 1).large(), nullptr);
  span* const s = classify(block).large();
  EXPECT_TRUE(large_block::deallocate(s));
  EXPECT_EQ(classify(block).large(), nullptr);
  int local = 0;
  EXPECT_EQ(classify(&local).large(), nullptr);
}

// Where the system backs huge pages unasked, a mapping begins a page before one.
TEST(large_block, that_has_been_copied_into_a_longer_mapping_counts_with_all_of_it) {
  const bool everywhere = engine::touch.everywhere();
  engine::touch.set_everywhere(true);
  tarn_trim(0);
  const std::size_t before = engine::large_bytes;
  std::vector<span*> blocks;
  // In a reservation: a mapping would be moved, not copied.
  do {
    blocks.push_back(classify(large_block::allocate(mib, 1, large_block::purpose::any)).large());
    ASSERT_NE(blocks.back(), nullptr);
  } while (blocks.back()->own_mapping);
  void* const longer = large_block::resize(blocks.back(), 600 * mib);
  engine::touch.set_everywhere(everywhere);
  ASSERT_NE(longer, nullptr);
  blocks.back() = classify(longer).large();
  EXPECT_GT(blocks.back()->bytes(), 600 * mib);
  for (span* s : blocks) EXPECT_TRUE(large_block::deallocate(s));
  tarn_trim(0);
  EXPECT_EQ(engine::large_bytes, before);
}

// Warm memory: a place that is just long enough, and one that is twice as long.
TEST(large_block, that_grows_moves_to_where_it_can_double) {
  constexpr std::size_t before = 100;
  constexpr std::size_t after = 105;
  tarn_trim(0);
  constexpr std::size_t lengths[] = {before, 1, after, 1, 2 * after, 1};
  constexpr std::size_t all = before + 3 * after + 3;
  std::vector<span*> spans{
      classify(large_block::allocate(all << page_shift, 1, large_block::purpose::any)).large()};
  ASSERT_NE(spans[0], nullptr);
  std::memset(reinterpret_cast<void*>(spans[0]->start), 1, all << page_shift);
  for (const std::size_t length : lengths) {
    if (spans.back()->pages == length) break;
    spans.push_back(engine::heap.split(spans.back(), length));
    ASSERT_NE(spans.back(), nullptr);
  }
  const std::uintptr_t roomy = spans[4]->start;
  for (const int freed : {2, 4}) engine::heap.deallocate(spans[static_cast<std::size_t>(freed)]);
  engine::large_bytes.fetch_sub(3 * after << page_shift, std::memory_order_relaxed);
  void* const longer = large_block::resize(spans[0], after << page_shift);
  EXPECT_EQ(address_of(longer), roomy);
  EXPECT_EQ(large_block::resize(classify(longer).large(), 2 * after << page_shift), longer);
  EXPECT_TRUE(all_bytes_are(longer, before << page_shift, 1));
  EXPECT_TRUE(large_block::deallocate(classify(longer).large()));
  for (const int border : {1, 3, 5})
    EXPECT_TRUE(large_block::deallocate(spans[static_cast<std::size_t>(border)]));
}

TEST(large_block, zeroing_touches_used_pages_only) {
  tarn_trim(0);
  constexpr std::size_t size = 48 * mib;
  void* const fresh = tarn_calloc(1, size);
  ASSERT_NE(fresh, nullptr);
  // A part of it may have been in use before; most of it is newly mapped.
  EXPECT_LT(resident_bytes(fresh, size), size / 4);
  tarn_free(fresh);
}

TEST(large_block, an_enormous_block_costs_what_is_used_of_it) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "the sanitizer uses much of the address space itself";
  if (!system_probes::memory_figures_are_own()) GTEST_SKIP() << system_probes::foreign_memory;
  const std::size_t before = system_probes::resident_set();
  for (const bool zeroed : {false, true, false}) {
    auto* const block = static_cast<char*>(large_block::allocate(
        enormous, 1, zeroed ? large_block::purpose::zeroed : large_block::purpose::any));
    if (block == nullptr) GTEST_SKIP() << "the system refuses a block of this size";
    block[0] = block[enormous / 2] = block[enormous - 1] = 1;
    tarn_free(block);
    EXPECT_LT(system_probes::resident_set(), before + 8 * mib);
  }
  auto* const block = static_cast<char*>(large_block::allocate(enormous, 1, large_block::purpose::zeroed));
  EXPECT_EQ(block[0] + block[enormous / 2] + block[enormous - 1], 0);
  tarn_free(block);
}

TEST(large_block, zeroed_where_it_was_written) {
  constexpr std::size_t size = 2 * mib;
  auto* const used = static_cast<char*>(tarn_malloc(size));
  std::memset(used, 0xff, size);
  tarn_free(used);
  void* const block = tarn_calloc(1, size);
  EXPECT_TRUE(all_bytes_are(block, size, 0));
  tarn_free(block);
}

TEST(large_block, zeroed_where_a_shorter_and_a_moved_block_were) {
  for (int round = 0; round < 3; ++round) {
    constexpr std::size_t size = 1 * mib;
    void* block = tarn_malloc(size);
    std::memset(block, 0xff, size);
    void* const wall = tarn_malloc(size);
    block = tarn_realloc(block, 3 * size);
    std::memset(block, 0xff, 3 * size);
    block = tarn_realloc(block, size);
    tarn_free(block);
    tarn_free(wall);
    void* const whole = tarn_calloc(4, size);
    ASSERT_TRUE(all_bytes_are(whole, 4 * size, 0));
    tarn_free(whole);
  }
}

TEST(large_block, grows_where_it_is_when_there_is_room) {
  tarn_trim(0);
  // Of several, two are adjacent; the first ones may fill gaps that other tests have left.
  std::vector<char*> blocks(64);
  for (char*& each : blocks) each = static_cast<char*>(tarn_malloc(mib));
  std::sort(blocks.begin(), blocks.end());
  const auto found = std::adjacent_find(blocks.begin(), blocks.end(),
                                        [](const char* a, const char* b) { return b == a + mib; });
  ASSERT_NE(found, blocks.end());
  char* const block = found[0];
  char* const behind = found[1];
  blocks.erase(found, found + 2);
  std::memset(block, 3, mib);
  tarn_free(behind);
  void* const longer = tarn_realloc(block, mib + 512 * kib);
  EXPECT_EQ(longer, block);
  EXPECT_EQ(tarn_usable_size(longer), mib + 512 * kib);
  EXPECT_TRUE(all_bytes_are(longer, mib, 3));
  tarn_free(longer);
  for (char* const each : blocks) tarn_free(each);
}

TEST(large_block, moves_with_its_content_and_can_be_used_and_freed) {
  for (const std::size_t size : {largest_class_size + page_size, 2 * largest_class_size, 5 * mib}) {
    void* block = tarn_malloc(size);
    std::memset(block, 0x55, tarn_usable_size(block));
    std::vector<void*> walls;
    int moves = 0;
    for (int move = 0; move < 4; ++move) {
      const std::size_t before = tarn_usable_size(block);
      // A new wall may take the memory after the block, which then has to move.
      span* const s = classify(block).large();
      ASSERT_NE(s, nullptr);
      walls.push_back(tarn_malloc(page_size * 40));
      void* const longer = tarn_realloc(block, before * 2);
      ASSERT_NE(longer, nullptr);
      if (longer != block) ++moves;
      block = longer;
      ASSERT_TRUE(all_bytes_are(block, before, 0x55)) << size << ", move " << move;
      std::memset(block, 0x55, tarn_usable_size(block));
    }
    EXPECT_GT(moves, 0) << "no block of " << size << " bytes had to move";
    block = tarn_realloc(block, size);
    ASSERT_TRUE(all_bytes_are(block, size, 0x55));
    tarn_free(block);
    for (void* wall : walls) tarn_free(wall);
  }
  engine::heap.validate();
}

TEST(large_block, a_little_shorter_keeps_its_length_much_shorter_gives_the_rest_back) {
  void* const block = tarn_malloc(4 * mib);
  const std::size_t bytes = tarn_usable_size(block);
  EXPECT_LE(bytes, 4 * mib + page_size) << "at most a page more, if the system's huge pages are `always`";
  EXPECT_EQ(tarn_realloc(block, 4 * mib - 100 * kib), block);
  EXPECT_EQ(tarn_usable_size(block), bytes);
  const std::size_t in_use = engine::heap.stats().in_use;
  EXPECT_EQ(tarn_realloc(block, 2 * mib), block);
  EXPECT_EQ(tarn_usable_size(block), 2 * mib);
  EXPECT_EQ(engine::heap.stats().in_use, in_use - (bytes - 2 * mib));
  tarn_free(block);
}

TEST(large_block, one_of_two_frees_wins) {
  void* const block = tarn_malloc(mib);
  span* const s = classify(block).large();
  ASSERT_NE(s, nullptr);
  EXPECT_TRUE(large_block::deallocate(s));
  EXPECT_FALSE(large_block::deallocate(s));
}

TEST(large_block, more_than_page_tables_reach_is_null) {
  EXPECT_EQ(large_block::allocate((std::size_t{1} << 44) + 1, 1, large_block::purpose::any), nullptr);
  EXPECT_EQ(large_block::allocate(1, std::size_t{1} << 45, large_block::purpose::any), nullptr);
}

}  // namespace
}  // namespace tarn
