// SPDX-License-Identifier: MIT
// pool_registry: requests that are refused, shared pools, and what the end of a pool returns.
#include "fronts/pools/pool_registry.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "engine/restore.hpp"
#include "os/own_threads/thread.hpp"
#include "tarn/malloc.h"

#include "../../../child_status.hpp"
#include "own_pool.hpp"

namespace tarn {
namespace {

using testing_support::request_of;

using testing_support::restore_options;

using change = std::function<void(tarn_pool_options&)>;

TEST(pool_registry, a_request_beyond_a_limit_is_refused) {
  const change changes[] = {
      [](tarn_pool_options& r) { r.object_size = 0; },
      [](tarn_pool_options& r) { r.object_size = slot_layout::largest_size + 1; },
      [](tarn_pool_options& r) { r.alignment = 0; },
      [](tarn_pool_options& r) { r.alignment = 24; },
      [](tarn_pool_options& r) { r.alignment = 2 * slot_layout::largest_size; },
      [](tarn_pool_options& r) { r.shards = pool_core::most_shards + 1; },
      [](tarn_pool_options& r) { r.magazine_length = largest_magazine + 1; },
      [](tarn_pool_options& r) { r.name = nullptr, r.name_length = 1; },
  };
  for (const change& beyond : changes) {
    tarn_pool_options request = request_of(64);
    beyond(request);
    for (const auto make : {pool_registry::create, pool_registry::find_or_create}) {
      errno = 0;
      EXPECT_EQ(make(request), nullptr) << &beyond - changes;
      EXPECT_EQ(errno, EINVAL);
    }
  }
}

TEST(pool_registry, a_request_at_the_limits_is_met) {
  tarn_pool_options request = request_of(slot_layout::largest_size);
  request.alignment = slot_layout::largest_size;
  request.shards = pool_core::most_shards;
  request.magazine_length = largest_magazine;
  request.name = nullptr;
  tarn_pool* const pool = pool_registry::create(request);
  ASSERT_NE(pool, nullptr);
  EXPECT_STREQ(pool->name(), "");
  EXPECT_EQ(pool->bytes(), 0U);
  EXPECT_EQ(pool_registry::destroy(pool), 0U);
}

TEST(pool_registry, a_first_capacity_that_cannot_be_had) {
  tarn_pool_options request = request_of(4096);
  request.limit = 64 * kib;
  request.initial_capacity = 17;
  errno = 0;
  EXPECT_EQ(pool_registry::create(request), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  request.initial_capacity = 16;
  tarn_pool* const pool = pool_registry::create(request);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->bytes(), 64 * kib);
  EXPECT_EQ(pool_registry::destroy(pool), 0U);
}

// Two requests that differ in the size alone may have the same slots.
TEST(pool_registry, a_shared_pool_is_one_for_each_name_layout_and_kind) {
  tarn_pool_options request = request_of(60);
  request.alignment = 8;
  request.name = "registry test";
  request.name_length = 13;
  tarn_pool* const pool = pool_registry::find_or_create(request);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool_registry::find_or_create(request), pool);
  const std::vector<std::pair<change, bool>> changes = {
      {[](tarn_pool_options& r) { r.object_size = 64; }, true},
      {[](tarn_pool_options& r) { r.object_size = 65; }, false},
      {[](tarn_pool_options& r) { r.alignment = 16; }, false},
      {[](tarn_pool_options& r) { r.name_length = 12; }, false},
      {[](tarn_pool_options& r) { r.checked = true; }, false},
  };
  for (const auto& [apply, is_same] : changes) {
    tarn_pool_options other = request;
    apply(other);
    EXPECT_EQ(pool_registry::find_or_create(other) == pool, is_same);
  }
  tarn_pool* const own = pool_registry::create(request);
  EXPECT_NE(own, pool);
  EXPECT_EQ(pool_registry::destroy(own), 0U);
}

TEST(pool_registry, a_pool_with_live_objects_does_not_end) {
  tarn_pool* const pool = pool_registry::create(request_of(64));
  ASSERT_NE(pool, nullptr);
  tarn_pool_bin* bin = pool_bin::no_bin();
  void* const first = tarn_pool_allocate_slow(pool, &bin);
  void* const second = detail::pop(bin);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(pool_registry::destroy(pool), 2U);
  EXPECT_TRUE(pool_bin::is_void(bin)) << "its thread's bin is void";
  tarn_pool_deallocate(first);
  EXPECT_EQ(pool_registry::destroy(pool), 1U);
  tarn_pool_deallocate(second);
  EXPECT_EQ(pool_registry::destroy(pool), 0U);
  EXPECT_EQ(pool_core::owner_of(first), nullptr);
}

TEST(pool_registry, a_pool_that_is_released_takes_its_objects_along) {
  tarn_pool_options request = request_of(1024);
  request.initial_capacity = 100;
  tarn_pool* const pool = pool_registry::create(request);
  ASSERT_NE(pool, nullptr);
  tarn_pool_bin* bin = pool_bin::no_bin();
  void* const object = tarn_pool_allocate_slow(pool, &bin);
  ASSERT_NE(object, nullptr);
  EXPECT_GE(pool_registry::release(pool), 1024U);
  EXPECT_EQ(pool_core::owner_of(object), nullptr);
}

// The parent's has been woken, and is not in the child.
TEST(pool_registry, a_pool_in_use_wakes_a_thread_in_a_forked_child_too) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "there is no background thread under sanitizers";
  restore_options restore;
  ASSERT_EQ(tarn_set_option("background", "on"), 0);
  void* const in_use = tarn_malloc(2 * mib);
  tarn_pool* const pool = pool_registry::create(request_of(64));
  ASSERT_NE(pool, nullptr);
  pool->release_surplus();
  EXPECT_TRUE(os::background_thread_runs());
  const int status = testing_support::child_status([pool] {
    if (os::background_thread_runs()) return 1;
    pool->release_surplus();
    return os::background_thread_runs() ? 0 : 2;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pool_registry::destroy(pool), 0U);
  tarn_free(in_use);
}

TEST(pool_registry, slots_in_bins_and_magazines_are_cached) {
  tarn_pool* const pool = pool_registry::create(request_of(64));
  ASSERT_NE(pool, nullptr);
  tarn_pool_bin* bin = pool_bin::no_bin();
  void* const object = tarn_pool_allocate_slow(pool, &bin);
  EXPECT_EQ(pool_registry::cached(pool), pool->taken() - 1);
  const std::size_t bytes = pool->bytes();
  EXPECT_EQ(pool_registry::trim(pool, static_cast<pool_bin*>(bin)), 0U) << "its only span has a live object";
  EXPECT_EQ(pool_registry::cached(pool), 0U);
  EXPECT_EQ(pool->taken(), 1U);
  tarn_pool_deallocate(object);
  EXPECT_EQ(pool_registry::trim(pool, static_cast<pool_bin*>(bin)), bytes);
  EXPECT_EQ(pool_registry::destroy(pool), 0U);
}

}  // namespace
}  // namespace tarn
