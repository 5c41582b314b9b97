// SPDX-License-Identifier: MIT
// metadata_pool: reuse, memory that goes back and comes again, what a forked child finds, and the invariants.
#include "pages/metadata_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "../broken_invariant.hpp"
#include "os/memory.hpp"

namespace tarn {

class metadata_pool_test_access {
 public:
  static std::size_t& loose_count(metadata_pool& p) { return p.loose_count_; }
  static std::size_t& lowest(metadata_pool& p) { return p.lowest_; }
  // As a fork finds it while another thread is in age().
  static void hold(metadata_pool& p) { p.hold_idle(); }
  static void hold_and_sort(metadata_pool& p, metadata_arena& arena) {
    p.sort_held(arena, p.hold_idle());
    p.ensure_spare_runs(arena);
    os::lock_guard guard(p.lock());
    p.make_runs_locked();
  }
};

namespace {

class metadata_pool_test : public testing::Test {
 protected:
  using access = metadata_pool_test_access;
  static constexpr std::size_t bytes = 192;
  static constexpr std::size_t many = 20'000;

  ~metadata_pool_test() override { validate(); }
  void validate() {
    os::lock_guard guard(pool.lock());
    pool.validate_locked();
  }
  // Distinct structures, each filled.
  std::vector<void*> take(std::size_t count) {
    std::vector<void*> taken;
    for (std::size_t i = 0; i < count; ++i) {
      taken.push_back(pool.allocate(arena));
      std::memset(taken.back(), 0xa5, bytes);
    }
    std::set<std::uintptr_t> places;
    for (void* const structure : taken) places.insert(address_of(structure));
    std::uintptr_t end = 0;
    for (const std::uintptr_t place : places) {
      EXPECT_GE(place, end) << "two structures overlap";
      EXPECT_EQ(place % cache_line, 0U);
      end = place + bytes;
    }
    EXPECT_EQ(places.size(), count);
    return taken;
  }
  void put(const std::vector<void*>& structures) {
    for (void* const structure : structures) pool.deallocate(structure);
  }
  void age(int periods) {
    for (int i = 0; i < periods; ++i) pool.age(arena);
    validate();
  }
  static std::size_t resident_pages(const std::vector<void*>& structures) {
    std::size_t pages = 0;
    std::uintptr_t last = 0;
    std::vector<void*> sorted = structures;
    std::sort(sorted.begin(), sorted.end());
    for (void* const structure : sorted) {
      const std::uintptr_t page = align_down(address_of(structure), os::system_page_size());
      unsigned char there = 0;
      if (page != std::exchange(last, page) &&
          mincore(reinterpret_cast<void*>(page), os::system_page_size(), &there) == 0)
        pages += there & 1;
    }
    return pages;
  }

  metadata_arena arena;
  metadata_pool pool{bytes, cache_line};
};

TEST(metadata_pool, what_comes_back_is_given_again) {
  metadata_arena arena;
  metadata_pool pool(96, 32);
  void* const first = pool.allocate(arena);
  void* const second = pool.allocate(arena);
  ASSERT_TRUE(first != nullptr && second != nullptr && first != second);
  EXPECT_EQ(address_of(first) % 32, 0U);
  const std::size_t used = arena.used();
  pool.deallocate(first);
  pool.deallocate(second);
  EXPECT_EQ(pool.allocate(arena), second) << "not the one that came back last";
  EXPECT_EQ(pool.allocate(arena), first);
  EXPECT_EQ(arena.used(), used);
}

TEST_F(metadata_pool_test, what_is_free_for_a_period_goes_back) {
  std::vector<void*> all = take(many);
  const std::size_t used = arena.used();
  std::shuffle(all.begin(), all.end(), std::mt19937(1));
  put(all);
  EXPECT_TRUE(pool.has_work());
  age(1);
  EXPECT_GT(resident_pages(all), many * bytes / page_size / 2) << "it was free for a part of the period only";
  age(1);
  EXPECT_FALSE(pool.has_work());
  EXPECT_LT(resident_pages(all), 64U);
  EXPECT_LT(arena.used(), used / 20);
  const std::vector<void*> again = take(many);
  EXPECT_LE(arena.used(), used + 16 * kib) << "what went back was not used again";
}

TEST_F(metadata_pool_test, what_is_in_use_keeps_its_content) {
  const std::vector<void*> all = take(many);
  std::vector<void*> freed;
  std::vector<void*> kept;
  for (std::size_t i = 0; i < many; ++i) (i / 500 % 2 == 0 ? freed : kept).push_back(all[i]);
  put(freed);
  age(3);
  EXPECT_LT(resident_pages(freed), freed.size() * bytes / page_size / 2);
  for (void* const structure : kept) {
    const auto* const content = static_cast<const unsigned char*>(structure);
    ASSERT_TRUE(std::all_of(content, content + bytes, [](unsigned char c) { return c == 0xa5; }));
  }
  put(kept);
}

TEST_F(metadata_pool_test, what_is_needed_again_stays) {
  const std::vector<void*> all = take(many);
  for (int period = 0; period < 3; ++period) {
    put(all);
    age(1);
    EXPECT_GT(resident_pages(all), many * bytes / page_size / 2);
    for (std::size_t i = 0; i < many; ++i) ASSERT_NE(pool.allocate(arena), nullptr);
  }
}

TEST_F(metadata_pool_test, few_stay) {
  put(take(100));
  EXPECT_FALSE(pool.has_work());
  age(3);
  EXPECT_EQ(pool.allocate(arena) != nullptr, true);
}

TEST_F(metadata_pool_test, a_forked_child_finds_what_was_held) {
  for (const bool sorted : {false, true}) {
    put(take(many));
    age(1);
    const std::size_t used = arena.used();
    std::thread([&] { sorted ? access::hold_and_sort(pool, arena) : access::hold(pool); }).join();
    EXPECT_LT(access::loose_count(pool), many / 10);
    pool.forget_holds();
    arena.forget_others();
    validate();
    const std::vector<void*> again = take(many);
    EXPECT_LE(arena.used(), used + 16 * kib) << "structures were lost";
    put(again);
    age(2);
    EXPECT_LT(resident_pages(again), 64U) << "nothing is given back any more";
  }
}

// A handler that forks has interrupted age(), which goes on in the child.
TEST_F(metadata_pool_test, a_forked_child_leaves_what_its_own_thread_holds) {
  put(take(many));
  age(1);
  access::hold_and_sort(pool, arena);
  const std::size_t loose = access::loose_count(pool);
  pool.forget_holds();
  EXPECT_EQ(access::loose_count(pool), loose);
}

// Its memory is the parent's, too.
TEST_F(metadata_pool_test, a_forked_child_leaves_what_it_has_inherited) {
  const std::vector<void*> all = take(many);
  put(all);
  pool.forget_holds();
  put(take(10));
  EXPECT_FALSE(pool.has_work());
  age(3);
  EXPECT_GT(resident_pages(all), many * bytes / page_size / 2);
  put(take(many));
  age(2);
  EXPECT_LT(resident_pages(all), 64U) << "what it has used itself stays";
}

TEST_F(metadata_pool_test, finds_a_broken_invariant) {
  put(take(10));
  os::lock_guard guard(pool.lock());
  ++access::loose_count(pool);
  EXPECT_BROKEN(pool.validate_locked(), "metadata_pool", "loose == loose_count_", &pool);
  --access::loose_count(pool);
  const std::size_t lowest = std::exchange(access::lowest(pool), 11);
  EXPECT_BROKEN(pool.validate_locked(), "metadata_pool", "lowest_ <= loose_count_", &pool);
  access::lowest(pool) = lowest;
}

}  // namespace
}  // namespace tarn
