// SPDX-License-Identifier: MIT
#include "os/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/units.hpp"

namespace tarn::os {
namespace {

constexpr std::size_t length = 1 * mib;

// How many of the system's pages in the range are backed; -1 if a part of it is not mapped.
long backed_pages(const void* start, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / page_size());
  if (mincore(const_cast<void*>(start), bytes, pages.data()) != 0) return -1;
  return std::count_if(pages.begin(), pages.end(), [](unsigned char c) { return (c & 1) != 0; });
}

bool all_bytes_are(const void* start, std::size_t bytes, char value) {
  const char* const at = static_cast<const char*>(start);
  return std::all_of(at, at + bytes, [value](char c) { return c == value; });
}

TEST(memory, page_size_is_the_systems) {
  EXPECT_EQ(page_size(), static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

TEST(memory, reserve_aligns_zeroes_and_does_not_touch) {
  for (std::size_t alignment = page_size(); alignment <= 64 * mib; alignment *= 4) {
    char* const start = static_cast<char*>(reserve(length, alignment));
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(address_of(start) % alignment, 0U) << alignment;
    EXPECT_EQ(backed_pages(start, length), 0);
    EXPECT_EQ(start[0], 0);
    EXPECT_EQ(start[length - 1], 0);
    std::memset(start, 1, length);
    release(start, length);
    EXPECT_EQ(backed_pages(start, page_size()), -1) << "still mapped";
  }
}

TEST(memory, reserve_fails_without_a_trace) {
  errno = 77;
  EXPECT_EQ(reserve(std::size_t{1} << 60, page_size()), nullptr);
  // Fits, but not with room to align.
  EXPECT_EQ(reserve(page_size(), std::size_t{1} << 60), nullptr);
  EXPECT_EQ(errno, 77);
}

TEST(memory, purge_drops_and_zeroes) {
  void* const start = reserve(length, page_size());
  ASSERT_NE(start, nullptr);
  std::memset(start, 0x5a, length);
  EXPECT_EQ(backed_pages(start, length), static_cast<long>(length / page_size()));
  EXPECT_TRUE(purge(start, length / 2));
  EXPECT_EQ(backed_pages(start, length / 2), 0);
  EXPECT_TRUE(all_bytes_are(start, length / 2, 0));
  EXPECT_TRUE(all_bytes_are(static_cast<char*>(start) + length / 2, length / 2, 0x5a));
  release(start, length);
  EXPECT_FALSE(purge(start, length)) << "a range that is not mapped keeps nothing and says so";
}

TEST(memory, populate_backs_with_zeroes) {
  void* const start = reserve(length, page_size());
  ASSERT_NE(start, nullptr);
  if (populate(start, length)) {
    EXPECT_EQ(backed_pages(start, length), static_cast<long>(length / page_size()));
  } else {
    EXPECT_EQ(backed_pages(start, length), 0);
  }
  EXPECT_TRUE(all_bytes_are(start, length, 0));
  release(start, length);
}

TEST(memory, move_pages_takes_the_content_along) {
  char* const from = static_cast<char*>(reserve(length, huge_page_size));
  char* const to = static_cast<char*>(reserve(length, huge_page_size));
  ASSERT_TRUE(from != nullptr && to != nullptr);
  std::memset(from, 0x33, length);
  std::memset(to, 0x44, length);
  if (move_pages(from, to, length)) {
    EXPECT_TRUE(all_bytes_are(to, length, 0x33));
    EXPECT_TRUE(all_bytes_are(from, length, 0)) << "the source reads as zero";
    std::memset(from, 1, length);
    EXPECT_TRUE(purge_moved(to, length));
    EXPECT_TRUE(all_bytes_are(to, length, 0));
    std::memset(to, 2, length);
    EXPECT_TRUE(all_bytes_are(from, length, 1)) << "the two ranges share no memory";
  } else {
    EXPECT_TRUE(all_bytes_are(from, length, 0x33)) << "failed, yet something has moved";
  }
  release(from, length);
  release(to, length);
}

// A source of several mappings, in a process whose table of mappings is all but full: newer kernels then move some of
// them, and fail.
TEST(memory, move_pages_keeps_the_content_where_only_some_can_move) {
  constexpr std::size_t bytes = 8 * huge_page_size;
  constexpr std::size_t most_entries = 100'000;
  std::size_t limit = 0;
  if (std::FILE* const file = std::fopen("/proc/sys/vm/max_map_count", "r")) {
    if (std::fscanf(file, "%zu", &limit) != 1) limit = 0;
    std::fclose(file);
  }
  if (limit == 0 || limit > most_entries) GTEST_SKIP() << "vm.max_map_count is " << limit;
  for (const std::size_t left : {4U, 8U, 12U, 16U, 24U, 40U}) {
    constexpr std::size_t room = bytes + huge_page_size;
    char* const from_room = static_cast<char*>(reserve(room, huge_page_size));
    char* const to = static_cast<char*>(reserve(room, huge_page_size));
    ASSERT_TRUE(from_room != nullptr && to != nullptr);
    for (std::size_t at = 0; at < bytes; at += 2 * huge_page_size) {
      ASSERT_TRUE(advise_no_huge(from_room + at, huge_page_size));
    }
    char* const from = from_room + huge_page_size / 2;  // so that what moves together splits the destination
    for (std::size_t at = 0; at < bytes; at += page_size()) {
      from[at] = static_cast<char>(1 + at / page_size() % 100);
      to[at] = 127;
    }
    // Pages of different protection cannot share an entry of the table.
    const std::size_t filled = 2 * limit * page_size();
    char* const filler = static_cast<char*>(
        mmap(nullptr, filled, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ASSERT_NE(filler, MAP_FAILED);
    std::size_t edge = page_size();
    while (edge < filled && mprotect(filler + edge, page_size(), PROT_READ) == 0) edge += 2 * page_size();
    for (std::size_t i = 0; i < left; i += 2) {
      edge -= 2 * page_size();
      mprotect(filler + edge, page_size(), PROT_NONE);
    }
    const bool moved = move_pages(from, to, bytes);
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < bytes; at += page_size()) {
      wrong += (moved ? to : from)[at] != static_cast<char>(1 + at / page_size() % 100) ? 1U : 0U;
      if (moved) wrong += from[at] != 0 ? 1U : 0U;
    }
    munmap(filler, filled);
    EXPECT_EQ(wrong, 0U) << "pages, with " << left << " entries left";
    release(from_room, room);
    release(to, room);
  }
}

TEST(memory, advice_on_a_range_that_is_not_mapped_fails) {
  void* const start = reserve(huge_page_size, huge_page_size);
  ASSERT_NE(start, nullptr);
  release(start, huge_page_size);
  EXPECT_FALSE(advise_huge(start, huge_page_size));
  EXPECT_FALSE(advise_no_huge(start, huge_page_size));
  EXPECT_FALSE(populate(start, huge_page_size));
}

}  // namespace
}  // namespace tarn::os
