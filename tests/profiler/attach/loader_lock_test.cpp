// SPDX-License-Identifier: MIT
// The lock of the dynamic linker is found, and is held while a library's constructor runs.
#include "profiler/attach/loader_lock.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>

namespace tarn::profiler {
namespace {

TEST(loader_lock, is_the_one_that_dlopen_waits_for) {
  const loader_lock lock(getpid(), modules_of_process(getpid()));
  ASSERT_NE(lock.address(), 0U);
  EXPECT_TRUE(lock.is_free());
  auto* const mutex = reinterpret_cast<pthread_mutex_t*>(lock.address());
  pthread_mutex_lock(mutex);
  EXPECT_FALSE(lock.is_free());
  pthread_t thread;
  pthread_create(
      &thread, nullptr, [](void*) -> void* { return dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD); }, nullptr);
  usleep(20'000);
  EXPECT_EQ(pthread_tryjoin_np(thread, nullptr), EBUSY) << "dlopen does not wait for it";
  pthread_mutex_unlock(mutex);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_TRUE(lock.is_free());
}

int look_at_lock(dl_phdr_info*, std::size_t, void* lock) {
  return static_cast<const loader_lock*>(lock)->is_free() ? 1 : 2;
}

TEST(loader_lock, the_list_of_libraries_counts_as_well) {
  loader_lock lock(getpid(), modules_of_process(getpid()));
  EXPECT_EQ(dl_iterate_phdr(look_at_lock, &lock), 2);
}

TEST(loader_lock, is_found_by_its_form) {
  std::vector<unsigned char> data(1024, 0);
  EXPECT_EQ(find_recursive_mutexes(data), -1);
  const pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  std::memcpy(data.data() + 128, &mutex, sizeof mutex);
  EXPECT_EQ(find_recursive_mutexes(data), -1) << "one alone";
  std::memcpy(data.data() + 512, &mutex, sizeof mutex);
  std::memcpy(data.data() + 512 + sizeof mutex, &mutex, sizeof mutex);
  EXPECT_EQ(find_recursive_mutexes(data), 512);
  EXPECT_EQ(find_recursive_mutexes({data.data(), 512 + sizeof mutex}), -1) << "at the end";
}

TEST(loader_lock, without_a_dynamic_linker_it_counts_as_free) {
  const loader_lock lock(getpid(), {});
  EXPECT_EQ(lock.address(), 0U);
  EXPECT_TRUE(lock.is_free());
}

}  // namespace
}  // namespace tarn::profiler
