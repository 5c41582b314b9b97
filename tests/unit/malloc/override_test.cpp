// SPDX-License-Identifier: MIT
// In a program linked with libtarn, every function of libc's malloc family is tarn's: what it allocates and frees shows
// in tarn's statistics.
#include <malloc.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/units.hpp"
#include "override_support.hpp"
#include "tarn/malloc.h"

// libc's headers no longer declare cfree, and do not yet declare the others.
extern "C" void cfree(void*) noexcept;
extern "C" void free_sized(void*, std::size_t) noexcept;
extern "C" void free_aligned_sized(void*, std::size_t, std::size_t) noexcept;

namespace tarn {
namespace {

using testing_support::hidden;
using testing_support::large_size;

constexpr int untouched = 4711;

tarn_stats stats_now() {
  tarn_stats out;
  tarn_get_stats(&out);
  return out;
}

struct giver {
  const char* name;
  std::size_t alignment;
  void* (*give)(std::size_t);
};

const giver givers[] = {
    {"malloc", 8, [](std::size_t n) { return malloc(n); }},
    {"calloc", 8, [](std::size_t n) { return calloc(1, n); }},
    {"realloc", 8, [](std::size_t n) { return realloc(nullptr, n); }},
    {"reallocarray", 8, [](std::size_t n) { return reallocarray(nullptr, n, 1); }},
    {"posix_memalign", 128,
     [](std::size_t n) {
       void* out = nullptr;
       EXPECT_EQ(posix_memalign(&out, 128, n), 0);
       return out;
     }},
    {"aligned_alloc", 256, [](std::size_t n) { return aligned_alloc(256, n); }},
    {"memalign", 1 << 16, [](std::size_t n) { return memalign(1 << 16, n); }},
    {"valloc", 4096, [](std::size_t n) { return valloc(n); }},
    {"pvalloc", 4096, [](std::size_t n) { return pvalloc(n); }},
    // libc's own calls of malloc reach tarn too.
    {"strdup", 8, [](std::size_t n) { return static_cast<void*>(strdup(std::string(n, 'x').c_str())); }},
};

struct taker {
  const char* name;
  void (*take)(void*, std::size_t);
};

const taker takers[] = {
    {"free", [](void* p, std::size_t) { free(p); }},
    {"cfree", [](void* p, std::size_t) { cfree(p); }},
    {"free_sized", [](void* p, std::size_t n) { free_sized(p, n); }},
    {"free_aligned_sized", [](void* p, std::size_t n) { free_aligned_sized(p, 64, n); }},
    {"realloc to 0", [](void* p, std::size_t n) { EXPECT_EQ(realloc(p, n - n), nullptr); }},
    {"tarn_free", [](void* p, std::size_t) { tarn_free(p); }},
};

TEST(override, whatever_gives_a_block_gives_tarns) {
  for (const giver& one : givers) {
    // Checked first, because tarn_usable_size must not get a block of another malloc.
    const std::uint64_t before = stats_now().large;
    void* const large = one.give(large_size);
    ASSERT_GE(stats_now().large, before + large_size) << one.name << " is not tarn's";
    free(large);
    for (const std::size_t size : {0U, 1U, 16U, 100U, 8192U, 262144U}) {
      void* const block = one.give(size);
      ASSERT_NE(block, nullptr) << one.name << " of " << size;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % one.alignment, 0U) << one.name << " of " << size;
      EXPECT_GE(tarn_usable_size(block), size) << one.name;
      EXPECT_EQ(malloc_usable_size(block), tarn_usable_size(block)) << one.name;
      free(block);
    }
  }
}

TEST(override, whatever_takes_a_block_takes_tarns) {
  for (const taker& one : takers) {
    const std::uint64_t before = stats_now().large;
    void* const block = tarn_malloc(large_size);
    ASSERT_EQ(stats_now().large, before + large_size);
    errno = untouched;
    one.take(block, large_size);
    EXPECT_EQ(errno, untouched) << one.name;
    EXPECT_EQ(stats_now().large, before) << one.name << " is not tarn's";
    one.take(tarn_malloc(100), 100);
  }
  free(nullptr);
  cfree(nullptr);
  free_sized(nullptr, 1);
  free_aligned_sized(nullptr, 16, 1);
  EXPECT_EQ(malloc_usable_size(nullptr), 0U);
}

TEST(override, realloc_and_reallocarray_keep_the_bytes) {
  auto* block = static_cast<char*>(malloc(100));
  ASSERT_NE(block, nullptr);
  std::memset(block, 9, 100);
  for (const std::size_t size : {200U, 5000000U, 9000000U, 120U}) {
    block = static_cast<char*>(realloc(block, hidden(size)));
    ASSERT_GE(tarn_usable_size(block), size);
    ASSERT_EQ(std::string(block, 100), std::string(100, 9)) << size;
    block = static_cast<char*>(reallocarray(block, hidden(size), 2));
    ASSERT_EQ(std::string(block, 100), std::string(100, 9)) << size;
  }
  free(block);
}

TEST(override, errors_are_those_of_the_standards) {
  const auto expect_error = [](void* block, int error, const char* name) {
    EXPECT_EQ(block, nullptr) << name;
    EXPECT_EQ(errno, error) << name;
    errno = 0;
  };
  errno = 0;
  const std::size_t much = hidden(SIZE_MAX - 4096);
  expect_error(malloc(much), ENOMEM, "malloc");
  expect_error(calloc(hidden(SIZE_MAX / 2), 3), ENOMEM, "calloc");
  expect_error(realloc(nullptr, much), ENOMEM, "realloc");
  expect_error(reallocarray(nullptr, hidden(SIZE_MAX / 2), 3), ENOMEM, "reallocarray");
  expect_error(aligned_alloc(64, much), ENOMEM, "aligned_alloc");
  expect_error(memalign(64, much), ENOMEM, "memalign");
  expect_error(valloc(much), ENOMEM, "valloc");
  expect_error(pvalloc(much), ENOMEM, "pvalloc");
  expect_error(aligned_alloc(hidden(48), 96), EINVAL, "aligned_alloc");
  expect_error(memalign(hidden(48), 96), EINVAL, "memalign");
  errno = untouched;
  void* out = &errno;
  EXPECT_EQ(posix_memalign(&out, hidden(4), 8), EINVAL);
  EXPECT_EQ(errno, untouched) << "glibc returns EINVAL without setting errno";
  EXPECT_EQ(posix_memalign(&out, 64, much), ENOMEM);
  EXPECT_EQ(out, &errno) << "written although it failed";
  EXPECT_EQ(errno, ENOMEM) << "glibc also sets errno to ENOMEM";
}

TEST(override, malloc_trim_says_whether_memory_went_back) {
  void* const block = malloc(hidden(16 * mib));
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 16 * mib);
  free(block);
  ASSERT_GE(stats_now().free_dirty, 16 * mib);
  const std::uint64_t returned = stats_now().returned;
  EXPECT_EQ(malloc_trim(0), 1);
  EXPECT_GE(stats_now().returned, returned + 16 * mib);
  EXPECT_EQ(malloc_trim(0), 0) << "the first call has left memory";
}

TEST(override, mallinfo_is_tarns) {
  void* volatile block = malloc(5 * mib);
  // All three come before the first check, because a check may allocate.
  const tarn_stats stats = stats_now();
  const struct mallinfo2 info = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  EXPECT_GE(stats.large, 5 * mib);
  EXPECT_EQ(info.hblkhd, stats.large);
  EXPECT_EQ(info.arena + info.hblkhd, stats.reserved);
  EXPECT_EQ(info.uordblks + info.hblkhd + info.fordblks, stats.reserved) << "the parts do not add up";
  EXPECT_EQ(info.keepcost, stats.free_dirty);
  EXPECT_EQ(narrow.arena, static_cast<int>(info.arena));
  EXPECT_EQ(narrow.hblkhd, static_cast<int>(info.hblkhd));
  EXPECT_EQ(narrow.uordblks, static_cast<int>(info.uordblks));
  EXPECT_EQ(narrow.fordblks, static_cast<int>(info.fordblks));
  EXPECT_EQ(narrow.keepcost, static_cast<int>(info.keepcost));
  free(block);
}

TEST(override, malloc_stats_is_one_line_on_standard_error) {
  testing::internal::CaptureStderr();
  malloc_stats();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.rfind("tarn: {\"version\": 2, \"reserved\": ", 0), 0U) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
}

TEST(override, malloc_info_writes_to_the_stream) {
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* const stream = open_memstream(&text, &length);
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(malloc_info(0, stream), 0);
  std::fclose(stream);
  const std::string xml(text, length);
  free(text);
  EXPECT_EQ(xml.rfind("<malloc version=\"tarn-1\">\n", 0), 0U) << xml;
  EXPECT_NE(xml.find("<system type=\"current\" size=\"" + std::to_string(stats_now().reserved) + "\"/>"),
            std::string::npos)
      << xml;
  EXPECT_EQ(xml.substr(xml.size() - 10), "</malloc>\n");

  errno = 0;
  EXPECT_EQ(malloc_info(1, stderr), -1);
  EXPECT_EQ(errno, EINVAL) << "options other than 0";
  std::FILE* const unwritable = std::fopen("/dev/null", "r");
  ASSERT_NE(unwritable, nullptr);
  EXPECT_EQ(malloc_info(0, unwritable), -1);
  std::fclose(unwritable);
}

TEST(override, mallopt_succeeds_and_tells_once_that_it_does_nothing) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 65536), 1);
  EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 65536), 1);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text, "tarn: mallopt(" + std::to_string(M_MMAP_THRESHOLD) +
                      ", …) has no effect; tarn's options are in TARN_…\n");
}

}  // namespace
}  // namespace tarn
