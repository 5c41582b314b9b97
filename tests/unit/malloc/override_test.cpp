// SPDX-License-Identifier: MIT
// In a program linked with libtarn, the functions by which programs inspect and tune libc's malloc are tarn's. Those
// that allocate and free are tested in tests/contract.
#include <malloc.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

tarn_stats stats_now() {
  tarn_stats out;
  tarn_get_stats(&out);
  return out;
}

TEST(override, libcs_names_and_tarns_are_of_one_heap) {
  void* const block = calloc(1, 100);
  EXPECT_EQ(malloc_usable_size(block), tarn_usable_size(block));
  tarn_free(block);
  free(tarn_malloc(100));
}

TEST(override, malloc_trim_says_whether_memory_went_back) {
  void* const block = malloc(16 * mib);
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

// Standard error may be a file of the program's, and nobody has asked.
TEST(override, mallopt_succeeds_and_says_nothing) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 65536), 1);
  EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 65536), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(override, mallinfo_counts_free_objects_between_live_ones_as_free) {
  constexpr std::size_t count = 100000;
  constexpr std::size_t size = 512;
  const std::size_t before = mallinfo2().uordblks;
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = malloc(size);
  for (std::size_t i = 0; i < count; i += 2) free(blocks[i]);
  const struct mallinfo2 half = mallinfo2();
  for (std::size_t i = 1; i < count; i += 2) free(blocks[i]);
  const auto live = static_cast<double>(half.uordblks - before);
  EXPECT_NEAR(live, count / 2.0 * size, count / 2.0 * size * 0.02 + 800000) << "and the table of blocks";
  EXPECT_GE(half.fordblks, count / 2 * size * 98 / 100);
}

}  // namespace
}  // namespace tarn
