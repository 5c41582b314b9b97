// SPDX-License-Identifier: MIT
// local_pool: objects, failure, reserve, trim, moves to another thread, leaks.
#include "tarn/pool.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fronts/pools/pool_support.hpp"

namespace {

using tarn::testing_support::is_aligned;
using tarn::testing_support::leak_notes;
using tarn::testing_support::stamped;

TEST(local_pool, takes_no_memory_before_its_first_object) {
  tarn::local_pool<stamped> pool;
  EXPECT_EQ(pool.stats().bytes, 0U);
  EXPECT_EQ(pool.live(), 0U);
  EXPECT_EQ(pool.trim(), 0U);
}

TEST(local_pool, objects_come_and_go) {
  tarn::local_pool<stamped> pool;
  std::mt19937 random(5);
  std::vector<stamped*> live;
  for (int step = 0; step < 100000; ++step) {
    if (live.size() < 3000 && random() % 2 == 0) {
      live.push_back(pool.create(random()));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(live.back()->is_whole());
      pool.destroy(live.back());
      live.pop_back();
    }
    ASSERT_TRUE(step % 1000 != 0 || pool.live() == live.size()) << pool.live();
  }
  for (stamped* object : live) pool.destroy(object);
  EXPECT_EQ(pool.live(), 0U);
}

TEST(local_pool, objects_are_aligned) {
  struct alignas(4096) page_aligned {
    char byte;
  };
  tarn::local_pool<page_aligned> pages;
  page_aligned* const page = pages.create();
  page_aligned* const another = pages.create();
  EXPECT_TRUE(is_aligned(page, 4096));
  EXPECT_TRUE(is_aligned(another, 4096));
  pages.destroy(page);
  pages.destroy(another);
}

TEST(local_pool, a_constructor_that_throws_leaves_nothing_behind) {
  struct always_throws {
    always_throws() { throw std::runtime_error("always"); }
  };
  tarn::local_pool<always_throws> pool;
  EXPECT_THROW((void)pool.create(), std::runtime_error);
  EXPECT_THROW((void)pool.try_create(), std::runtime_error);
  EXPECT_EQ(pool.live(), 0U);
}

TEST(local_pool, reserved_memory_is_the_pools_at_once) {
  tarn::local_pool<stamped> pool;
  pool.reserve(5000);
  const std::size_t bytes = pool.stats().bytes;
  EXPECT_GE(bytes, 5000 * sizeof(stamped));
  std::vector<stamped*> objects;
  for (std::uint64_t i = 0; i < 5000; ++i) objects.push_back(pool.create(i));
  EXPECT_EQ(pool.stats().bytes, bytes);
  for (stamped* object : objects) pool.destroy(object);
}

TEST(local_pool, trim_gives_all_idle_memory_back) {
  tarn::local_pool<stamped> pool;
  std::vector<stamped*> objects;
  for (std::uint64_t i = 0; i < 10000; ++i) objects.push_back(pool.create(i));
  for (stamped* object : objects) pool.destroy(object);
  const std::size_t before = pool.stats().bytes;
  EXPECT_EQ(pool.trim(), before);
  EXPECT_EQ(pool.stats().bytes, 0U);
  pool.destroy(pool.create(1U));
}

TEST(local_pool, may_move_to_another_thread_as_a_whole) {
  auto pool = std::make_unique<tarn::local_pool<stamped>>();
  std::vector<stamped*> objects;
  for (std::uint64_t i = 0; i < 2000; ++i) objects.push_back(pool->create(i));
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) {
      pool->destroy(objects.back());
      objects.pop_back();
    }
    for (std::uint64_t i = 0; i < 500; ++i) objects.push_back(pool->create(i));
  }).join();
  for (const stamped* object : objects) ASSERT_TRUE(object->is_whole());
  std::thread([&] {
    for (stamped* object : objects) pool->destroy(object);
    pool.reset();
  }).join();
}

TEST(local_pool, one_that_ends_with_live_objects_says_so_and_keeps_them) {
  const leak_notes notes;
  int* left = nullptr;
  {
    tarn::local_pool<int> pool;
    left = pool.create(5);
    (void)pool.create(6);
  }
  EXPECT_EQ(leak_notes::leaks, 1U);
  EXPECT_EQ(leak_notes::live, 2U);
  EXPECT_EQ(*left, 5);
}

}  // namespace
