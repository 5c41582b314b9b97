// SPDX-License-Identifier: MIT
// Sizes, trimming, statistics and options of tarn/malloc.h. What its functions have in common with libc's is tested in
// tests/contract; each option and statistic in runtime/.
#include "tarn/malloc.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "engine/restore.hpp"
#include "os/memory.hpp"
#include "slots/size_class.hpp"

namespace tarn {
namespace {

using testing_support::restore_options;

constexpr int untouched = 4711;

tarn_stats stats_now() {
  tarn_stats out;
  tarn_get_stats(&out);
  return out;
}

TEST(api, good_size_is_what_a_block_of_that_size_holds) {
  for (std::size_t size = 0; size < 3 * mib; size += 1 + size / 20) {
    void* const block = tarn_malloc(size);
    ASSERT_EQ(tarn_good_size(size), tarn_usable_size(block)) << size;
    ASSERT_EQ(tarn_good_size(tarn_good_size(size)), tarn_good_size(size)) << size;
    tarn_free(block);
  }
  EXPECT_EQ(tarn_good_size(largest_class_size), largest_class_size);
  EXPECT_EQ(tarn_good_size(largest_class_size + 1), largest_class_size + page_size);
  EXPECT_EQ(tarn_good_size(std::size_t{PTRDIFF_MAX} + 1), std::size_t{PTRDIFF_MAX} + 1)
      << "no block can be that large";
  EXPECT_EQ(tarn_good_size(SIZE_MAX), SIZE_MAX);
}

TEST(api, trim_keeps_what_it_is_told_to_and_says_how_much_went_back) {
  restore_options restore;
  tarn_set_option("decay_ms", "-1");
  tarn_trim(0);
  void* const block = tarn_malloc(32 * mib);
  std::memset(block, 1, 32 * mib);
  tarn_free(block);
  const tarn_stats before = stats_now();
  ASSERT_GE(before.free_dirty, 32 * mib);
  errno = untouched;
  EXPECT_EQ(tarn_trim(SIZE_MAX), 0U);
  EXPECT_EQ(stats_now().free_dirty, before.free_dirty);
  const std::size_t gone = tarn_trim(0);
  EXPECT_EQ(errno, untouched);
  EXPECT_EQ(gone, before.free_dirty);
  EXPECT_EQ(stats_now().free_dirty, 0U);
  EXPECT_EQ(stats_now().returned, before.returned + gone);
  EXPECT_EQ(tarn_trim(0), 0U) << "the first trim has left memory";
}

// ---- statistics ----

TEST(api, statistics_are_of_this_version_and_follow_what_is_allocated) {
  const tarn_stats before = stats_now();
  EXPECT_EQ(before.version, 2U);
  void* const block = tarn_malloc(7 * mib);
  const tarn_stats after = stats_now();
  const std::size_t bytes = tarn_usable_size(block);
  EXPECT_LE(bytes, 7 * mib + page_size) << "at most a page more, if the system's huge pages are `always`";
  EXPECT_EQ(after.large, before.large + bytes);
  EXPECT_EQ(after.in_use, before.in_use + bytes);
  EXPECT_GE(after.threads, 1U);
  tarn_free(block);
  EXPECT_EQ(stats_now().large, before.large);
}

TEST(api, statistics_are_written_no_further_than_the_programs_structure) {
  struct {
    tarn_stats known;
    std::uint64_t later[2];
  } out;
  std::memset(&out, 0x5a, sizeof out);
  const std::uint64_t pattern = out.later[0];

  void* const block = tarn_malloc(100);  // so that no figure tested here is 0
  constexpr std::size_t of_an_older_program = offsetof(tarn_stats, in_use);
  EXPECT_EQ(tarn_get_stats_sized(&out.known, of_an_older_program), sizeof(tarn_stats));
  EXPECT_EQ(out.known.version, stats_now().version);
  EXPECT_EQ(out.known.in_use, pattern);

  EXPECT_EQ(tarn_get_stats_sized(&out.known, sizeof out), sizeof(tarn_stats));
  EXPECT_GT(out.known.in_use, 0U);
  EXPECT_EQ(out.later[0], 0U);
  EXPECT_EQ(out.later[1], 0U);
  tarn_free(block);

  std::memset(&out, 0x5a, sizeof out);
  tarn_get_stats(&out.known);
  EXPECT_EQ(out.later[0], pattern);
}

TEST(api, statistics_as_json_fit_or_are_cut_and_always_end) {
  const std::size_t length = tarn_stats_json(nullptr, 0);
  std::vector<char> buffer(length + 1, '#');
  ASSERT_EQ(tarn_stats_json(buffer.data(), buffer.size()), length);
  const std::string whole = buffer.data();
  EXPECT_EQ(whole.size(), length);
  const nlohmann::json object = nlohmann::json::parse(whole);
  const tarn_stats now = stats_now();
  EXPECT_EQ(object["version"], 2);
  EXPECT_EQ(object["in_use"], now.in_use);
  EXPECT_EQ(object["spans_freed"], now.spans_freed);
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{2}, length - 1, length}) {
    std::vector<char> part(capacity + 1, '#');
    EXPECT_EQ(tarn_stats_json(part.data(), capacity), length) << capacity;
    EXPECT_EQ(std::string(part.data()), whole.substr(0, capacity - 1)) << capacity;
    EXPECT_EQ(part[capacity], '#') << "written past the buffer";
  }
}

// ---- options ----

TEST(api, options_are_told_completely_up_to_the_last) {
  std::set<std::string> names;
  tarn_option option{};
  std::size_t count = 0;
  for (; tarn_option_at(count, &option) == 0; ++count) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name << " twice";
    for (const char* text : {option.value, option.standard, option.accepts, option.meaning, option.source}) {
      ASSERT_NE(text, nullptr) << option.name;
      EXPECT_STRNE(text, "") << option.name;
    }
  }
  EXPECT_EQ(names.count("decay_ms"), 1U);
  const tarn_option last = option;
  for (const std::size_t behind : {count, count + 1, SIZE_MAX}) {
    EXPECT_EQ(tarn_option_at(behind, &option), ENOENT);
    EXPECT_EQ(option.name, last.name) << "written although there is no such option";
  }
}

tarn_option named(const std::string& name) {
  tarn_option option{};
  for (std::size_t i = 0; tarn_option_at(i, &option) == 0 && name != option.name;) ++i;
  return option;
}

TEST(api, an_option_set_is_told_and_whose_doing_it_was) {
  restore_options restore;
  errno = untouched;
  ASSERT_EQ(tarn_set_option("large_cache", "12M"), 0);
  EXPECT_EQ(errno, untouched);
  const tarn_option option = named("large_cache");
  EXPECT_STREQ(option.value, "12M");
  EXPECT_STREQ(option.standard, "auto");
  EXPECT_STREQ(option.source, "program");
}

TEST(api, a_bad_name_or_value_is_an_error_and_changes_nothing) {
  restore_options restore;
  ASSERT_EQ(tarn_set_option("decay_ms", "500"), 0);
  EXPECT_EQ(tarn_set_option("decay", "1"), ENOENT);
  EXPECT_EQ(tarn_set_option("", "1"), ENOENT);
  EXPECT_EQ(tarn_set_option("DECAY_MS", "1"), ENOENT);
  EXPECT_EQ(tarn_set_option("decay_ms", ""), EINVAL);
  EXPECT_EQ(tarn_set_option("decay_ms", "soon"), EINVAL);
  EXPECT_EQ(tarn_set_option("decay_ms", "-2"), EINVAL);
  EXPECT_EQ(tarn_set_option("decay_ms", nullptr), EINVAL);
  EXPECT_EQ(tarn_set_option(nullptr, "1"), EINVAL);
  EXPECT_STREQ(named("decay_ms").value, "500");
}

TEST(api, an_options_value_is_each_threads_own_to_read) {
  restore_options restore;
  ASSERT_EQ(tarn_set_option("decay_ms", "111"), 0);
  const tarn_option mine = named("decay_ms");
  std::thread([] {
    ASSERT_EQ(tarn_set_option("decay_ms", "222"), 0);
    EXPECT_STREQ(named("decay_ms").value, "222");
  }).join();
  EXPECT_STREQ(mine.value, "111") << "changed by another thread's call";
  EXPECT_STREQ(named("decay_ms").value, "222");
}

TEST(api, version_is_three_numbers) {
  int parts[3] = {-1, -1, -1};
  char rest = '\0';
  EXPECT_EQ(std::sscanf(tarn_version(), "%d.%d.%d%c", &parts[0], &parts[1], &parts[2], &rest), 3);
  EXPECT_STREQ(tarn_version(), TARN_VERSION);
}

}  // namespace
}  // namespace tarn
