// SPDX-License-Identifier: MIT
// page_heap: large blocks in mappings of their own, which grow, move, and serve longer blocks.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "os/memory.hpp"
#include "page_heap_fixture.hpp"
#include "pages/zero_pages.hpp"

namespace tarn {
namespace {

class page_heap_mapping_test : public page_heap_fixture {};

constexpr std::size_t long_pages = 8 * mib >> page_shift;

TEST_F(page_heap_mapping_test, a_long_block_lies_in_a_mapping_of_its_own_which_goes_when_it_is_idle) {
  const std::size_t before = heap_.stats().reserved;
  span* const s = take(long_pages);
  ASSERT_TRUE(s->own_mapping);
  EXPECT_EQ(heap_.stats().reserved, before + 8 * mib);
  fill(s, 3);
  const std::uintptr_t start = s->start;
  heap_.deallocate(s);
  EXPECT_EQ(heap_.stats().free_dirty, 8 * mib) << "not kept for the next one";
  heap_.age();
  heap_.age();
  EXPECT_EQ(heap_.stats().reserved, before);
  EXPECT_EQ(map_.span_of(start), nullptr) << "unmapped addresses still lead to a span";
  EXPECT_EQ(map_.span_of(start + 8 * mib - 1), nullptr);
  check();
}

TEST_F(page_heap_mapping_test, idle_blocks_that_are_too_short_make_room_for_a_longer_one) {
  for (std::size_t pages = long_pages; pages <= 8 * long_pages; pages += long_pages) {
    span* const s = take(pages);
    EXPECT_LE(heap_.dirty_bytes(), 16 * mib) << "kept in addition to a block of " << s->bytes();
    fill(s, 3);
    heap_.deallocate(s);
    check();
  }
}

TEST_F(page_heap_mapping_test, a_few_idle_megabytes_stay_where_a_longer_block_is_taken) {
  heap_.deallocate(take(long_pages));
  take(2 * long_pages);
  EXPECT_EQ(heap_.dirty_bytes(), 8 * mib);
  EXPECT_NE(try_take(long_pages, 1, source::warm), nullptr);
}

TEST_F(page_heap_mapping_test, a_mapping_of_its_own_grows_with_its_content) {
  span* const s = take(long_pages);
  const std::uintptr_t first = s->start;
  for (std::size_t pages = long_pages; pages < 16 * long_pages; pages += pages / 2) {
    const std::uintptr_t start = s->start;
    fill(s, 3);
    if (!heap_.grow_mapping(s, pages + pages / 2)) GTEST_SKIP() << "this system cannot move a mapping";
    ASSERT_EQ(s->pages, pages + pages / 2);
    EXPECT_EQ(byte_at(s->start), 3);
    EXPECT_EQ(byte_at(s->start + (pages << page_shift) - 1), 3);
    EXPECT_EQ(byte_at(s->start + (pages << page_shift)), 0);
    EXPECT_EQ(byte_at(s->end() - 1), 0);
    EXPECT_EQ(map_.span_of(s->start), s);
    EXPECT_EQ(map_.span_of(s->end() - 1), s);
    if (s->start != start) {
      EXPECT_NE(map_.span_of(start), s) << "the old place still leads to the span";
    }
    check();
  }
  if (s->start != first) {
    EXPECT_NE(map_.span_of(first), s);
  }
  heap_.release_to_system(s);
  check();
}

// So a tracer can be told that the block ends before it hears of another one there.
TEST_F(page_heap_mapping_test, a_span_that_moves_is_announced_while_it_has_its_old_place) {
  static page_map* map = nullptr;
  static int calls = 0;
  static bool has_place = true;
  map = &map_;
  span* const s = take(long_pages);
  int moved = 0;
  for (std::size_t pages = 2 * long_pages; pages < 20 * long_pages; pages += long_pages) {
    const std::uintptr_t start = s->start;
    const auto look = [](span* moving) {
      ++calls;
      has_place =
          has_place && map->span_of(moving->start) == moving && moving->state.load() == span_state::large;
    };
    if (!heap_.grow_mapping(s, pages, look)) break;
    if (s->start != start) ++moved;
    EXPECT_EQ(calls, moved);
  }
  if (moved == 0) GTEST_SKIP() << "no mapping has moved";
  EXPECT_TRUE(has_place);
  heap_.release_to_system(s);
  check();
}

TEST_F(page_heap_mapping_test, a_block_in_a_reservation_grows_by_no_mapping) {
  span* const s = take(64);
  ASSERT_FALSE(s->own_mapping);
  EXPECT_FALSE(heap_.grow_mapping(s, long_pages));
  EXPECT_EQ(s->pages, 64U);
}

TEST_F(page_heap_mapping_test, parts_of_a_mapping_of_its_own_go_one_by_one) {
  const std::size_t before = heap_.stats().reserved;
  span* const s = take(long_pages);
  fill(s, 3);
  span* const rest = heap_.split(s, long_pages / 2);
  ASSERT_NE(rest, nullptr);
  heap_.release_to_system(s);
  EXPECT_EQ(heap_.stats().reserved, before + 4 * mib);
  EXPECT_EQ(byte_at(rest->start), 3);
  heap_.release_to_system(rest);
  EXPECT_EQ(heap_.stats().reserved, before);
  check();
}

TEST_F(page_heap_mapping_test, more_than_the_machine_has_is_refused_whatever_address_space_is_free) {
  const std::size_t machine = os::machine_bytes();
  if (machine > (std::size_t{1} << 42)) GTEST_SKIP() << "a machine of " << machine << " bytes";
  std::FILE* const file = std::fopen("/proc/sys/vm/overcommit_memory", "r");
  const int policy = file != nullptr ? std::fgetc(file) : '1';
  if (file != nullptr) std::fclose(file);
  if (policy == '1') GTEST_SKIP() << "this system promises any amount of memory";
  EXPECT_EQ(try_take(pages_for(machine + machine / 2)), nullptr);
  check();
}

std::size_t backed_bytes(const span* s) {
  const std::size_t step = os::system_page_size();
  std::vector<unsigned char> backed(s->bytes() / step);
  if (mincore(reinterpret_cast<void*>(s->start), s->bytes(), backed.data()) != 0) return 0;
  return static_cast<std::size_t>(
             std::count_if(backed.begin(), backed.end(), [](unsigned char b) { return (b & 1U) != 0; })) *
         step;
}

TEST_F(page_heap_mapping_test, a_shorter_backed_block_is_made_longer_for_the_next_one) {
  const std::size_t before = heap_.stats().reserved;
  span* const shorter = take(long_pages);
  fill(shorter, 3);
  heap_.deallocate(shorter);
  span* const longer = take(2 * long_pages, 1, source::any, use::filled);
  if (heap_.dirty_bytes() != 0) GTEST_SKIP() << "this system cannot move a mapping";
  EXPECT_EQ(longer->pages, 2 * long_pages);
  EXPECT_EQ(backed_bytes(longer), 8 * mib);
  EXPECT_EQ(heap_.stats().reserved, before + 16 * mib);
  EXPECT_EQ(heap_.stats().in_use, 16 * mib);
  zero_dirty_pages(map_, longer);
  EXPECT_EQ(byte_at(longer->start), 0) << "what the shorter block held is taken for fresh memory";
  EXPECT_EQ(byte_at(longer->start + 8 * mib - 1), 0);
  fill(longer, 4);
  check();
  heap_.release_to_system(longer);
  EXPECT_EQ(heap_.stats().reserved, before);
  check();
}

TEST_F(page_heap_mapping_test,
       a_block_that_need_not_be_filled_or_has_little_from_the_shorter_one_gets_fresh_memory) {
  span* const shorter = take(long_pages);
  fill(shorter, 3);
  heap_.deallocate(shorter);
  for (const auto& [pages, how] : {std::pair{2 * long_pages, use::sparse}, {5 * long_pages, use::filled}}) {
    span* const fresh = take(pages, 1, source::any, how);
    EXPECT_EQ(backed_bytes(fresh), 0U);
    EXPECT_EQ(byte_at(fresh->start), 0);
    EXPECT_EQ(heap_.dirty_bytes(), 8 * mib) << "the free block is gone";
    heap_.release_to_system(fresh);
    check();
  }
}

TEST_F(page_heap_mapping_test, an_aligned_block_gets_fresh_memory) {
  span* const shorter = take(long_pages);
  fill(shorter, 3);
  heap_.deallocate(shorter);
  const std::size_t alignment = 64 * mib >> page_shift;
  span* const aligned = take(2 * long_pages, alignment, source::any, use::filled);
  EXPECT_EQ(aligned->start % (64 * mib), 0U);
  check();
}

}  // namespace
}  // namespace tarn
