// SPDX-License-Identifier: MIT
// In the hardened build, address space that a typed pool has used never serves another type or malloc, even after the
// pool has ended.
#include "fronts/pools/hardened_type_spans.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "../../../system_probes.hpp"
#include "base/units.hpp"
#include "tarn/malloc.h"
#include "tarn/pool.hpp"

namespace {

struct first_type {
  std::uint64_t words[12];
};
struct second_type {
  std::uint64_t words[12];
};
constexpr std::size_t count = 20'000;

template <class T>
std::vector<T*> fill(tarn::local_pool<T>& pool) {
  std::vector<T*> objects;
  for (std::size_t i = 0; i < count; ++i) objects.push_back(pool.create());
  return objects;
}

// The pages of all objects that a new pool of the type hands out. The pool ends.
template <class T>
std::set<std::uintptr_t> pages_of_a_pool() {
  tarn::local_pool<T> pool;
  std::set<std::uintptr_t> pages;
  for (T* object : fill(pool)) {
    pages.insert(tarn::address_of(object) / tarn::page_size);
    pages.insert((tarn::address_of(object + 1) - 1) / tarn::page_size);
    pool.destroy(object);
  }
  return pages;
}

TEST(hardened_type_spans, memory_of_a_pool_that_went_becomes_no_other_types) {
  const std::set<std::uintptr_t> before = pages_of_a_pool<first_type>();
  for (const std::uintptr_t page : pages_of_a_pool<second_type>()) ASSERT_FALSE(before.contains(page));
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(tarn_malloc(i % 3 == 0 ? 5000 : 96));
  for (void* block : blocks) {
    ASSERT_FALSE(before.contains(tarn::address_of(block) / tarn::page_size));
    tarn_free(block);
  }
}

TEST(hardened_type_spans, memory_of_a_pool_that_went_serves_its_own_type_again) {
  std::set<std::uintptr_t> all = pages_of_a_pool<first_type>();
  const std::size_t of_one_pool = all.size();
  for (int i = 0; i < 50; ++i) all.merge(pages_of_a_pool<first_type>());
  // A pool takes more spans than it fills.
  EXPECT_LE(all.size(), 2 * of_one_pool);
}

// tarn_pool_of() must find the pool by the object's address alone.
TEST(hardened_type_spans, an_object_in_memory_that_serves_again_is_known_as_its_pools) {
  std::set<std::uintptr_t> before = pages_of_a_pool<first_type>();
  tarn::local_pool<first_type> pool;
  std::size_t in_earlier_memory = 0;
  for (first_type* object : fill(pool)) {
    in_earlier_memory += before.count(tarn::address_of(object) / tarn::page_size);
    ASSERT_NE(tarn_pool_of(object), nullptr) << object;
    pool.destroy(object);
  }
  EXPECT_GT(in_earlier_memory, 0U);
}

TEST(hardened_type_spans, an_object_in_memory_that_serves_again_is_destroyed_through_its_deleter) {
  for (int i = 0; i < 2; ++i) {
    tarn::object_pool<first_type> pool;
    std::vector<tarn::pool_ptr<first_type, tarn::owner_deleter<first_type>>> objects;
    for (std::size_t n = 0; n < count; ++n) objects.push_back(pool.make_unique());
  }
}

TEST(hardened_type_spans, what_a_pool_gives_back_while_it_lives_stays_its_types) {
  tarn::local_pool<first_type> pool;
  std::set<std::uintptr_t> before;
  for (first_type* object : fill(pool)) {
    before.insert(tarn::address_of(object) / tarn::page_size);
    pool.destroy(object);
  }
  pool.trim();
  EXPECT_LT(pool.stats().bytes, count * sizeof(first_type) / 10);
  for (const std::uintptr_t page : pages_of_a_pool<second_type>()) ASSERT_FALSE(before.contains(page));
}

TEST(hardened_type_spans_death, a_pointer_into_a_pool_that_went_faults_or_reads_zero) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  EXPECT_EXIT(
      {
        first_type* stale = nullptr;
        {
          tarn::local_pool<first_type> pool;
          stale = pool.create();
          stale->words[0] = 5;
          pool.destroy(stale);
        }
        const std::uint64_t read = *static_cast<volatile std::uint64_t*>(stale->words);
        if (read == 0) std::abort();
      },
      [](int status) { return WIFSIGNALED(status); }, "");
}

}  // namespace
