// SPDX-License-Identifier: MIT
// buffer_registry: the list of pools, and what the engine asks of all pools.
#include "fronts/buffers/buffer_registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/engine.hpp"
#include "engine/front.hpp"
#include "tarn/pool.h"

namespace tarn {
namespace {

tarn_buffer_options request_for(std::int64_t idle_ms) {
  tarn_buffer_options request = TARN_BUFFER_OPTIONS;
  request.name = "";
  request.alignment = 1;
  request.limit = 64 * mib;
  request.idle_ms = idle_ms;
  return request;
}

std::vector<buffer_core*> all() {
  std::vector<buffer_core*> pools;
  buffer_registry::for_each([&](buffer_core& pool) { pools.push_back(&pool); });
  return pools;
}

tarn_buffer_stats figures_of(buffer_core& pool) {
  tarn_buffer_stats out{};
  EXPECT_TRUE(pool.figures(out, nullptr));
  return out;
}

void get_and_give(tarn_buffer_pool* pool) {
  std::size_t capacity = 0;
  void* const buffer = tarn_buffer_get(pool, mib, &capacity);
  ASSERT_NE(buffer, nullptr);
  tarn_buffer_give_back(pool, buffer);
}

// Two pools; of the first, buffers stay until they are trimmed.
class buffer_registry_test : public testing::Test {
 protected:
  buffer_registry_test() { tarn_set_option("background", "off"), tarn_set_option("decay_ms", "-1"); }
  ~buffer_registry_test() override {
    stays_->end();
    ages_->end();
    tarn_set_option("background", "auto"), tarn_set_option("decay_ms", "1000");
  }
  tarn_buffer_pool* const stays_ = buffer_registry::create(request_for(-1));
  tarn_buffer_pool* const ages_ = buffer_registry::create(request_for(0));
};

TEST_F(buffer_registry_test, each_pool_is_in_the_list_once_and_stays) {
  const std::vector<buffer_core*> before = all();
  EXPECT_EQ(std::count(before.begin(), before.end(), stays_), 1);
  EXPECT_EQ(std::count(before.begin(), before.end(), ages_), 1);
  tarn_buffer_pool* const ended = buffer_registry::create(request_for(-1));
  ended->end();
  const std::vector<buffer_core*> with_ended = all();
  EXPECT_EQ(buffer_registry::create(request_for(-1)), ended);
  EXPECT_EQ(all(), with_ended);
  ended->end();
}

TEST_F(buffer_registry_test, a_period_gives_what_is_idle_to_the_system) {
  const engine::front& front = engine::buffer_front;
  EXPECT_FALSE(front.has_work());
  get_and_give(stays_);
  get_and_give(ages_);
  EXPECT_TRUE(front.has_work());
  front.age();
  EXPECT_EQ(figures_of(*stays_).kept_bytes, mib);
  EXPECT_EQ(figures_of(*ages_).kept_bytes, 0U);
  EXPECT_EQ(figures_of(*ages_).given_back, mib);
}

TEST_F(buffer_registry_test, where_memory_is_short_the_page_heap_gets_what_is_kept) {
  get_and_give(stays_);
  const std::size_t in_use = engine::heap.in_use_bytes();
  engine::buffer_front.reclaim();
  EXPECT_EQ(figures_of(*stays_).kept_bytes, 0U);
  EXPECT_EQ(figures_of(*stays_).given_back, 0U) << "to the system";
  EXPECT_EQ(engine::heap.in_use_bytes(), in_use - mib);
  EXPECT_FALSE(engine::buffer_front.has_work());
}

// Forwards the list's lock comes first, backwards last.
TEST_F(buffer_registry_test, fork_visits_the_lock_of_the_list_and_of_each_pool) {
  static std::vector<os::mutex*> locks;
  for (const bool backwards : {false, true}) {
    locks.clear();
    engine::buffer_front.walk_locks(
        {.visit = [](os::mutex& lock) { locks.push_back(&lock); }, .backwards = backwards});
    ASSERT_EQ(locks.size(), all().size() + 1);
    EXPECT_EQ(backwards ? locks.back() : locks.front(), &buffer_registry::group.lock);
    for (buffer_core* const pool : all()) EXPECT_EQ(std::count(locks.begin(), locks.end(), &pool->lock()), 1);
  }
}

}  // namespace
}  // namespace tarn
