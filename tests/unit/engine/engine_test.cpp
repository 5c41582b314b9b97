// SPDX-License-Identifier: MIT
// The cache of a thread from its first block to its end, also if libc has no key or no room for its value.
#include "engine/engine.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "../../system_probes.hpp"
#include "base/compiler.hpp"
#include "self.hpp"
#include "tarn/malloc.h"

namespace {
thread_local bool no_room_for_values = false;
}

// Replaces libc's pthread_setspecific in the whole program, and fails on request as if there were no memory for a
// thread's key values. (Not under ThreadSanitizer, which calls it in a thread whose thread_local data is gone.)
#if !TARN_TSAN
extern "C" int pthread_setspecific(pthread_key_t key, const void* value) noexcept {
  using function = int (*)(pthread_key_t, const void*);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_setspecific"));
  if (!no_room_for_values) return real(key, value);
  errno = ENOMEM;
  return ENOMEM;
}
#endif

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
  for (std::size_t size = 0; size <= size_classes::fine_end; ++size)
    EXPECT_EQ(engine::no_cache.pop_fine(size), nullptr);
  EXPECT_EQ(engine::no_cache.cached_bytes(), 0U);
}

TEST(engine, errno_stays_when_libc_has_no_room_for_a_threads_value) {
  if (TARN_TSAN) GTEST_SKIP() << "pthread_setspecific cannot be made to fail under ThreadSanitizer";
  void* const block = tarn_malloc(100);
  std::thread([block] {
    no_room_for_values = true;
    errno = EDOM;
    tarn_free(block);
    const int error = errno;
    no_room_for_values = false;
    EXPECT_EQ(error, EDOM);
    EXPECT_NE(engine::local_cache, &engine::no_cache);
    engine::registry.destroy(engine::local_cache);  // there is no key value, whose destructor would do it
    engine::local_cache = &engine::no_cache;
  }).join();
}

TEST(engine_child, has_no_key) {
  if (!testing_support::is_child()) return;
  pthread_key_t key = 0;
  while (pthread_key_create(&key, nullptr) == 0) {
  }
  // Key 0 belongs to another part of the program, whose value must not change.
  const void* const of_key_0 = pthread_getspecific(0);
  for (int i = 0; i < 500; ++i) {
    std::thread([] {
      const void* const at_start = pthread_getspecific(0);
      for (int n = 0; n < 100; ++n) tarn_free(tarn_malloc(1000));
      EXPECT_EQ(pthread_getspecific(0), at_start);
    }).join();
  }
  tarn_free(tarn_malloc(1));
  EXPECT_EQ(pthread_getspecific(0), of_key_0);
  EXPECT_LT(engine::registry.count(), 200U) << "caches of threads that ended are not used again";
}

TEST(engine, works_without_a_key) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const auto result = testing_support::run_test("", "engine_child.has_no_key");
  EXPECT_EQ(result.status, 0) << result.output;
}

// Destructors of other keys allocate and free, in every round of destructors. (Under ThreadSanitizer not in the last
// one, in which its own data of the thread is gone.)
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
