// SPDX-License-Identifier: MIT
// Every function of tarn/malloc.h does what its comment says. What the functions have in common with libc's is tested
// in entry_points_test; each option and statistic in runtime/.
#include "tarn/malloc.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "central/size_class.hpp"
#include "os/memory.hpp"
#include "runtime/restore.hpp"

namespace tarn {
namespace {

using testing_support::restore_options;

constexpr int untouched = 4711;

tarn_stats stats_now() {
  tarn_stats out;
  tarn_get_stats(&out);
  return out;
}

// ---- allocation ----

struct giver {
  const char* name;
  std::size_t alignment;
  void* (*give)(std::size_t);
};

const giver givers[] = {
    {"malloc", 8, [](std::size_t n) { return tarn_malloc(n); }},
    {"calloc", 8, [](std::size_t n) { return tarn_calloc(n, 1); }},
    {"realloc", 8, [](std::size_t n) { return tarn_realloc(nullptr, n); }},
    {"reallocarray", 8, [](std::size_t n) { return tarn_reallocarray(nullptr, 1, n); }},
    {"posix_memalign", 128,
     [](std::size_t n) {
       void* out = nullptr;
       EXPECT_EQ(tarn_posix_memalign(&out, 128, n), 0);
       return out;
     }},
    {"aligned_alloc", 256, [](std::size_t n) { return tarn_aligned_alloc(256, n); }},
    {"memalign", 1 << 16, [](std::size_t n) { return tarn_memalign(1 << 16, n); }},
    {"valloc", 4096, [](std::size_t n) { return tarn_valloc(n); }},
    {"pvalloc", 4096, [](std::size_t n) { return tarn_pvalloc(n); }},
};

struct taker {
  const char* name;
  void (*take)(void*, std::size_t);
};

const taker takers[] = {
    {"free", [](void* p, std::size_t) { tarn_free(p); }},
    {"free_sized", [](void* p, std::size_t n) { tarn_free_sized(p, n); }},
    {"free_aligned_sized", [](void* p, std::size_t n) { tarn_free_aligned_sized(p, 64, n); }},
    {"realloc to 0", [](void* p, std::size_t) { EXPECT_EQ(tarn_realloc(p, 0), nullptr); }},
    {"reallocarray to 0", [](void* p, std::size_t) { EXPECT_EQ(tarn_reallocarray(p, 3, 0), nullptr); }},
};

TEST(api, whatever_gives_a_block_gives_it_aligned_and_usable_and_leaves_errno) {
  for (const giver& one : givers) {
    for (const std::size_t size : {0U, 1U, 15U, 16U, 100U, 8192U, 262144U, 262145U, 3000000U}) {
      errno = untouched;
      void* const block = one.give(size);
      ASSERT_NE(block, nullptr) << one.name << " of " << size;
      EXPECT_EQ(errno, untouched) << one.name << " of " << size;
      EXPECT_EQ(address_of(block) % one.alignment, 0U) << one.name << " of " << size;
      const std::size_t usable = tarn_usable_size(block);
      EXPECT_GE(usable, size) << one.name;
      std::memset(block, 0x5a, usable);
      tarn_free(block);
      EXPECT_EQ(errno, untouched) << "free, of a block of " << one.name;
    }
  }
}

TEST(api, whatever_takes_a_block_takes_it_whole) {
  for (const giver& from : givers) {
    for (const taker& to : takers) {
      const std::uint64_t before = stats_now().large;
      void* const block = from.give(3 * mib);
      ASSERT_GE(stats_now().large, before + 3 * mib) << from.name;
      errno = untouched;
      to.take(block, 3 * mib);
      EXPECT_EQ(stats_now().large, before) << from.name << ", " << to.name;
      EXPECT_EQ(errno, untouched) << to.name;
      to.take(from.give(48), 48);
    }
  }
}

TEST(api, null_may_be_freed_by_any_of_them) {
  errno = untouched;
  tarn_free(nullptr);
  tarn_free_sized(nullptr, 5);
  tarn_free_aligned_sized(nullptr, 64, 128);
  EXPECT_EQ(errno, untouched);
}

TEST(api, reallocarray_keeps_the_bytes) {
  auto* block = static_cast<char*>(tarn_malloc(100));
  std::memset(block, 9, 100);
  for (const std::size_t count : {7U, 1000U, 100000U, 50U}) {
    block = static_cast<char*>(tarn_reallocarray(block, count, 20));
    ASSERT_NE(block, nullptr);
    EXPECT_GE(tarn_usable_size(block), count * 20);
    EXPECT_EQ(std::string(block, 100), std::string(100, 9)) << count;
  }
  tarn_free(block);
}

TEST(api, good_size_is_what_a_block_of_that_size_holds) {
  for (std::size_t size = 0; size < 2 * mib; size += 1 + size / 20) {
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

TEST(api, usable_size_of_null_is_0) { EXPECT_EQ(tarn_usable_size(nullptr), 0U); }

TEST(api, trim_keeps_what_it_is_told_to_and_says_how_much_went_back) {
  restore_options restore;
  tarn_set_option("decay_ms", "-1");
  tarn_trim(0);
  void* const block = tarn_malloc(32 * mib);
  std::memset(block, 1, 32 * mib);
  tarn_free(block);
  const tarn_stats before = stats_now();
  ASSERT_GE(before.free_dirty, 32 * mib);
  EXPECT_EQ(tarn_trim(SIZE_MAX), 0U);
  EXPECT_EQ(stats_now().free_dirty, before.free_dirty);
  const std::size_t gone = tarn_trim(0);
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
  EXPECT_STREQ(option.standard, "256M");
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
