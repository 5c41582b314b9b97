// SPDX-License-Identifier: MIT
// tarn/testing.hpp and its matchers for GoogleTest, in programs whose malloc is tarn's: every way to allocate is counted once.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tarn/adapters/googletest.hpp"
#include "tarn/testing.hpp"

namespace {

using tarn::allocation_limit;
using tarn::allocations_of;

// What the compiler cannot remove.
template <class T>
T* kept(T* pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

TEST(override_counts, are_possible) { EXPECT_TRUE(tarn::counts_are_possible()); }

TEST(override_counts, nothing_is_nothing) {
  const auto used = allocations_of([] {});
  EXPECT_EQ(used.allocations, 0U);
  EXPECT_EQ(used.bytes, 0U);
  EXPECT_LE(used, allocation_limit{});
}

// Each way once, cold and warm: a count does not depend on what lies in magazines.
TEST(override_counts, every_way_to_allocate_counts_once) {
  for (int round = 0; round < 300; ++round) {
    void* blocks[12] = {};
    const auto used = allocations_of([&blocks] {
      blocks[0] = kept(std::malloc(10));
      blocks[1] = kept(std::malloc(1000));
      blocks[2] = kept(std::malloc(20000));
      blocks[3] = kept(std::malloc(300000));
      blocks[4] = kept(std::calloc(10, 10));
      blocks[5] = kept(std::calloc(1000, 1000));
      blocks[6] = kept(std::realloc(nullptr, 50));
      blocks[7] = kept(::operator new(24));
      blocks[8] = kept(::operator new[](48, std::nothrow));
      blocks[9] = kept(std::aligned_alloc(4096, 4096));
      ASSERT_EQ(posix_memalign(&blocks[10], 64, 64), 0);
      blocks[11] = kept(strdup("twelve bytes"));
    });
    ASSERT_EQ(used.allocations, 12U);
    ASSERT_EQ(used.bytes, 10U + 1000 + 20000 + 300000 + 100 + 1000000 + 50 + 24 + 48 + 4096 + 64 + 13);
    ASSERT_EQ(used.sizes[2], 20000U);
    for (void* block : blocks) std::free(block);
  }
}

TEST(override_counts, realloc_counts_when_the_block_moves) {
  void* small = kept(std::malloc(100));
  EXPECT_EQ(allocations_of([&] { small = kept(std::realloc(small, 101)); }).allocations, 0U);
  EXPECT_EQ(allocations_of([&] { small = kept(std::realloc(small, 5000)); }).allocations, 1U);
  std::free(small);
  EXPECT_EQ(allocations_of([] { std::free(nullptr); }).allocations, 0U);
}

TEST(override_counts, many_allocations_are_counted_exactly) {
  constexpr std::uint64_t count = 200000;
  const auto used = allocations_of([] {
    for (std::uint64_t i = 0; i < count; ++i) std::free(kept(std::malloc(i % 700)));
  });
  EXPECT_EQ(used.allocations, count);
}

TEST(override_counts, counters_nest) {
  const tarn::allocation_counter outer;
  delete kept(new int(1));
  {
    const tarn::allocation_counter inner;
    delete kept(new int(2));
    delete kept(new int(3));
    EXPECT_EQ(inner.used().allocations, 2U);
  }
  const auto used = outer.used();  // GoogleTest's comparison has allocated nothing, or more
  EXPECT_GE(used.allocations, 3U);
}

TEST(override_counts, other_threads_count_for_themselves) {
  tarn::allocation_count others;
  std::thread waiting;
  const auto used = allocations_of([&] {
    std::thread([&others] {
      others = allocations_of([] {
        for (int i = 0; i < 1000; ++i) delete kept(new int(i));
      });
    }).join();
  });
  EXPECT_EQ(others.allocations, 1000U);
  EXPECT_LT(used.allocations, 20U) << "that of the thread";
}

TEST(override_counts, a_thread_whose_first_allocation_is_counted) {
  std::uint64_t counted = 0;
  std::thread([&counted] {
    tarn_allocation_count count;
    tarn_count_begin(&count);
    for (int i = 0; i < 100; ++i) std::free(kept(std::malloc(40)));
    tarn_count_end(&count);
    counted = count.allocations;
  }).join();
  EXPECT_EQ(counted, 100U);
}

TEST(override_counts, threads_that_share_the_processors_caches) {
  std::vector<std::jthread> idle;
  for (int i = 0; i < 40; ++i) {
    idle.emplace_back([](const std::stop_token& stop) {
      std::free(kept(std::malloc(100)));
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
  }
  std::uint64_t counted = 0;
  std::uint64_t bytes = 0;
  std::thread([&counted, &bytes] {
    const auto used = allocations_of([] {
      for (int i = 0; i < 10000; ++i) std::free(kept(std::malloc(40)));
    });
    counted = used.allocations;
    bytes = used.bytes;
  }).join();
  EXPECT_EQ(counted, 10000U);
  EXPECT_EQ(bytes, 400000U);
}

TEST(override_counts, an_exception_ends_the_count) {
  EXPECT_THROW((void)allocations_of([] { throw 1; }), int);
  EXPECT_EQ(allocations_of([] { delete kept(new int(1)); }).allocations, 1U);
}

TEST(override_counts, messages_say_how_many_of_which_bytes_and_what_is_allowed) {
  tarn::allocation_count used;
  EXPECT_EQ(tarn::to_string(used), "no allocation");
  used = {1, 64, {64}};
  EXPECT_EQ(tarn::to_string(used), "1 allocation of 64 bytes");
  used = {3, 384, {64, 64, 256}};
  EXPECT_EQ(tarn::to_string(used), "3 allocations of 384 bytes in all (64, 64, 256)");
  used = {9, 9, {1, 1, 1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(tarn::to_string(used), "9 allocations of 9 bytes in all (1, 1, 1, 1, 1, 1, 1, 1 ...)");
  EXPECT_EQ(tarn::to_string(allocation_limit{}), "no allocation");
  EXPECT_EQ(tarn::to_string(allocation_limit{.allocations = 2, .bytes = 256}),
            "at most 2 allocations of 256 bytes in all");
  EXPECT_EQ(tarn::to_string(allocation_limit{.allocations = allocation_limit::any, .bytes = 1}),
            "at most any number of allocations of 1 byte in all");
  std::ostringstream out;
  out << used << allocation_limit{.allocations = 1};
  EXPECT_EQ(out.str(), tarn::to_string(used) + "at most 1 allocation");
}

TEST(override_counts, limits_of_calls_and_of_bytes) {
  const auto used = allocations_of([] { delete[] kept(new char[100]); });
  EXPECT_TRUE(used <= (allocation_limit{.allocations = 1}));
  EXPECT_TRUE(used <= (allocation_limit{.allocations = 1, .bytes = 100}));
  EXPECT_FALSE(used <= (allocation_limit{.allocations = 1, .bytes = 99}));
  EXPECT_FALSE(used <= (allocation_limit{}));
}

// ---- GoogleTest ----

void allocate_twice() {
  delete[] kept(new char[64]);
  delete[] kept(new char[256]);
}

TEST(override_counts, googletest_assertions_fail_with_a_message) {
  EXPECT_TRUE(tarn::in_googletest::allocates_at_most({.allocations = 2}, allocate_twice));
  const testing::AssertionResult result =
      tarn::in_googletest::allocates_at_most({.allocations = 1}, allocate_twice);
  EXPECT_FALSE(result);
  EXPECT_STREQ(result.message(),
               "it has made 2 allocations of 320 bytes in all (64, 256); allowed: at most 1 allocation");
  EXPECT_NONFATAL_FAILURE(EXPECT_LE(allocations_of(allocate_twice), (allocation_limit{.allocations = 1})),
                          "2 allocations of 320 bytes in all (64, 256)");
}

TEST(override_counts, googletest_matchers) {
  using matcher = testing::Matcher<const tarn::allocation_count&>;
  const matcher keeps = tarn::in_googletest::at_most({.allocations = 2, .bytes = 320});
  const matcher exceeds = tarn::in_googletest::at_most({.allocations = 2, .bytes = 319});
  EXPECT_TRUE(keeps.Matches(allocations_of(allocate_twice)));
  EXPECT_FALSE(exceeds.Matches(allocations_of(allocate_twice)));
  std::ostringstream text;
  keeps.DescribeTo(&text);
  text << "; ";
  keeps.DescribeNegationTo(&text);
  EXPECT_EQ(text.str(),
            "is at most 2 allocations of 320 bytes in all; is not at most 2 allocations of 320 bytes in all");
}

TEST(override_counts, googletest_budgets_of_a_scope) {
  {
    const tarn::in_googletest::allocation_budget budget({.allocations = 2});
    allocate_twice();
  }
  EXPECT_NONFATAL_FAILURE(
      {
        const tarn::in_googletest::allocation_budget budget({.allocations = 1, .bytes = 100});
        allocate_twice();
      },
      "this scope has made 2 allocations of 320 bytes in all (64, 256); allowed: at most 1 allocation of 100 bytes in all");
}

TEST(override_counts, a_count_that_is_not_the_innermost_ends_the_process) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  tarn_allocation_count outer;
  tarn_allocation_count inner;
  EXPECT_DEATH(
      {
        tarn_count_begin(&outer);
        tarn_count_begin(&inner);
        tarn_count_end(&outer);
      },
      "tarn_count_end of a count that is not the innermost one");
  EXPECT_DEATH(tarn_count_end(&outer), "tarn_count_end of a count");
}

}  // namespace
