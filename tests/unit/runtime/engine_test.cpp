// SPDX-License-Identifier: MIT
#include "runtime/engine.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstring>
#include <thread>

#include "base/compiler.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

TEST(engine, a_thread_has_a_cache_from_its_first_block_to_its_end) {
  tarn_free(tarn_malloc(1));
  const std::size_t before = engine::registry.count();
  std::thread([before] {
    EXPECT_EQ(engine::local_cache, &engine::no_cache);
    void* const block = tarn_malloc(100);
    EXPECT_NE(engine::local_cache, &engine::no_cache);
    EXPECT_EQ(engine::attach_thread(), engine::local_cache);
    EXPECT_EQ(engine::registry.count(), before + 1);
    tarn_free(block);
  }).join();
  EXPECT_EQ(engine::registry.count(), before);
}

TEST(engine, a_thread_that_frees_only_has_a_cache_too) {
  void* const block = tarn_malloc(100);
  std::thread([block] {
    tarn_free(block);
    EXPECT_NE(engine::local_cache, &engine::no_cache);
  }).join();
}

TEST(engine, the_empty_cache_stays_empty) {
  for (unsigned c = 0; c < size_classes::count; ++c) EXPECT_EQ(engine::no_cache.pop(c), nullptr);
  EXPECT_EQ(engine::no_cache.cached_bytes(), 0U);
}

// Destructors of other keys allocate and free, in every round of them. (Under ThreadSanitizer not in the
// last: its own part of the thread has ended by then.)
constexpr int destructor_rounds = PTHREAD_DESTRUCTOR_ITERATIONS - TARN_TSAN;
pthread_key_t late_key;
int late_rounds = 0;

void late(void* value) {
  auto* const block = static_cast<char*>(tarn_malloc(200));
  std::memset(block, 1, 200);
  tarn_free(block);
  tarn_free(value);
  if (++late_rounds < destructor_rounds) pthread_setspecific(late_key, tarn_malloc(300));
}

TEST(engine, destructors_of_a_threads_data_may_allocate_and_free) {
  late_rounds = 0;
  ASSERT_EQ(pthread_key_create(&late_key, late), 0);
  const std::size_t before = engine::registry.count();
  std::thread([] { pthread_setspecific(late_key, tarn_malloc(300)); }).join();
  EXPECT_EQ(late_rounds, destructor_rounds);
  EXPECT_LE(engine::registry.count(), before + 1) << "one cache may wait for adoption, no more";
  pthread_key_delete(late_key);
}

}  // namespace
}  // namespace tarn
