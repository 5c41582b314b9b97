// SPDX-License-Identifier: MIT
// Results, errors and errno of the code that the tarn_ functions and the replaced functions of libc share.
#include "malloc/entry_points.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>

#include "os/memory.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

constexpr int errno_before = 4711;
constexpr std::size_t too_much = std::size_t{1} << 60;

// Hides a size from the compiler, which warns of sizes that are too large.
std::size_t hidden(std::size_t n) {
  volatile std::size_t v = n;
  return v;
}

TEST(entry_points, zero_bytes_are_distinct_blocks) {
  std::set<void*> distinct;
  for (int i = 0; i < 1000; ++i) distinct.insert(tarn_malloc(0));
  EXPECT_EQ(distinct.size(), 1000U);
  EXPECT_EQ(distinct.count(nullptr), 0U);
  for (void* block : distinct) tarn_free(block);
}

TEST(entry_points, blocks_of_every_size_can_be_written_and_are_aligned) {
  for (std::size_t size = 1; size < 3 * mib; size += 1 + size / 16) {
    auto* const block = static_cast<char*>(tarn_malloc(size));
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(address_of(block) % (size >= 16 ? 16 : 8), 0U) << size;
    const std::size_t usable = tarn_usable_size(block);
    ASSERT_GE(usable, size);
    ASSERT_EQ(usable, tarn_good_size(size)) << size;
    std::memset(block, 1, usable);
    tarn_free(block);
  }
}

TEST(entry_points, success_leaves_errno_alone) {
  errno = errno_before;
  void* block = tarn_malloc(10);
  block = tarn_realloc(block, 5 * mib);
  block = tarn_realloc(block, 100);
  tarn_free(block);
  tarn_free(nullptr);
  tarn_free(tarn_calloc(1000, 1000));
  tarn_free(tarn_aligned_alloc(1 << 20, 100));
  tarn_trim(0);
  EXPECT_EQ(errno, errno_before);
}

TEST(entry_points, too_much_is_enomem) {
  const auto expect_enomem = [](const void* block) {
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
  };
  for (const std::size_t size :
       {too_much, std::size_t{PTRDIFF_MAX}, std::size_t{PTRDIFF_MAX} + 1, SIZE_MAX, SIZE_MAX - 4096}) {
    expect_enomem(tarn_malloc(hidden(size)));
    expect_enomem(tarn_calloc(1, hidden(size)));
    expect_enomem(tarn_aligned_alloc(16, hidden(size)));
    expect_enomem(tarn_aligned_alloc(1 << 16, hidden(size)));
    expect_enomem(tarn_memalign(64, hidden(size)));
    expect_enomem(tarn_valloc(hidden(size)));
    expect_enomem(tarn_pvalloc(hidden(size)));
    expect_enomem(tarn_realloc(nullptr, hidden(size)));
  }
  expect_enomem(tarn_aligned_alloc(too_much, 1));
}

TEST(entry_points, products_that_overflow_are_enomem) {
  errno = 0;
  EXPECT_EQ(tarn_calloc(hidden(SIZE_MAX / 2), 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void* const block = tarn_malloc(10);
  errno = 0;
  EXPECT_EQ(tarn_reallocarray(block, hidden(SIZE_MAX / 4 + 2), 4), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  tarn_free(block);
}

TEST(entry_points, a_failed_realloc_leaves_the_block) {
  for (const std::size_t size : {100U, 5000000U}) {
    auto* const block = static_cast<char*>(tarn_malloc(size));
    std::memset(block, 7, size);
    EXPECT_EQ(tarn_realloc(block, hidden(too_much)), nullptr);
    EXPECT_EQ(block[0], 7);
    EXPECT_EQ(block[size - 1], 7);
    tarn_free(block);
  }
}

TEST(entry_points, realloc_at_its_ends) {
  void* const block = tarn_realloc(nullptr, 50);
  ASSERT_NE(block, nullptr);
  EXPECT_GE(tarn_usable_size(block), 50U);
  EXPECT_EQ(tarn_realloc(block, 0), nullptr);
  EXPECT_EQ(tarn_realloc(nullptr, 0) != nullptr, true);
}

TEST(entry_points, bad_alignments) {
  for (const std::size_t alignment : {0U, 3U, 24U, 48U, 4097U}) {
    errno = 0;
    EXPECT_EQ(tarn_aligned_alloc(alignment, 10), nullptr) << alignment;
    EXPECT_EQ(errno, EINVAL);
    errno = errno_before;
    void* out = &errno;
    EXPECT_EQ(tarn_posix_memalign(&out, alignment, 10), EINVAL) << alignment;
    EXPECT_EQ(out, &errno) << "written although it failed";
    EXPECT_EQ(errno, errno_before) << "a bad alignment must not set errno";
  }
  void* out = nullptr;
  for (const std::size_t alignment : {1U, 2U, 4U}) {
    EXPECT_EQ(tarn_posix_memalign(&out, alignment, 10), EINVAL) << "not a multiple of a pointer's size";
  }
  errno = errno_before;
  EXPECT_EQ(tarn_posix_memalign(&out, 64, hidden(too_much)), ENOMEM);
  EXPECT_EQ(errno, ENOMEM) << "glibc sets it too, and programs print it";
  errno = errno_before;
  EXPECT_EQ(tarn_posix_memalign(&out, 64, SIZE_MAX), ENOMEM);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(out, nullptr);
}

TEST(entry_points, calloc_gives_zeroes_in_used_memory) {
  for (const std::size_t size : {1U, 64U, 5000U, 262144U, 300000U, 3000000U}) {
    void* const used = tarn_malloc(size);
    std::memset(used, 0xff, size);
    tarn_free(used);
    auto* const block = static_cast<unsigned char*>(tarn_calloc(1, size));
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(block[i], 0) << i << " of " << size;
    tarn_free(block);
  }
  void* const none = tarn_calloc(0, 100);
  EXPECT_NE(none, nullptr);
  tarn_free(none);
}

TEST(entry_points, pages) {
  const std::size_t page = os::system_page_size();
  void* const one = tarn_valloc(10);
  void* const whole = tarn_pvalloc(page + 1);
  void* const least = tarn_pvalloc(0);
  EXPECT_EQ(address_of(one) % page, 0U);
  EXPECT_EQ(address_of(whole) % page, 0U);
  EXPECT_GE(tarn_usable_size(whole), 2 * page);
  EXPECT_GE(tarn_usable_size(least), page);
  tarn_free(one);
  tarn_free(whole);
  tarn_free(least);
}

}  // namespace
}  // namespace tarn
