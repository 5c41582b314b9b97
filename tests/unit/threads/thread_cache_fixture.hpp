// SPDX-License-Identifier: MIT
// thread_cache_fixture: two caches of an engine of their own, and what the tests of a cache's parts share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "own_engine.hpp"
#include "slots/objects.hpp"
#include "threads/thread_cache.hpp"

namespace tarn {

// Access to the members that the invariants in thread_cache.hpp mention.
class thread_cache_test_access {
 public:
  static thread_cache::bin& bin_of(thread_cache& cache, unsigned c) { return cache.bins_[c]; }
  static magazine* loaded(thread_cache& cache, unsigned c) { return cache.loaded_[c]; }
  static bool has_spare(thread_cache& cache, unsigned c) { return spare(cache, c) != nullptr; }
  static magazine* spare(thread_cache& cache, unsigned c) { return cache.spare_[c].look(); }
  static std::size_t spare_count(thread_cache& cache, unsigned c) {
    return has_spare(cache, c) ? spare(cache, c)->count : 0;
  }
  static std::size_t& capacity_bytes(thread_cache& cache) { return cache.capacity_bytes_; }
  // The number of objects that the class's loaded magazine may hold; its spare magazine may hold as many.
  static std::size_t most(const thread_cache& cache, unsigned c) { return cache.most_[c]; }
  static std::size_t holes(const thread_cache& cache, unsigned c) { return cache.holes_[c]; }
  static bool is_empty_bin(thread_cache& cache, unsigned c) { return cache.loaded_[c] == no_magazine(); }
};

class thread_cache_fixture : public testing::Test {
 protected:
  using access = thread_cache_test_access;

  static constexpr unsigned small = 5;  // objects of 64 bytes

  // No guarded allocation is due, except in tests that change until_sample.
  thread_cache_fixture() {
    for (unsigned c = 0; c < size_classes::all; ++c) {
      for (thread_cache* cache : {&cache_, &other_})
        access::bin_of(*cache, c).samples.until_sample = class_countdown::longest_step;
    }
  }
  void* allocate(unsigned c) {
    void* object = testing_support::take(*engine_, cache_, c);
    EXPECT_FALSE(free_mark::is_set(engine_->map, c, object));
    return object;
  }
  void release(unsigned c, void* object) { release_to(cache_, c, object); }
  void release_to(thread_cache& cache, unsigned c, void* object) {
    freed_.insert(object);
    const page_map::entry page = engine_->map.find(address_of(object));
    if (!cache.push(page, object)) {
      ASSERT_TRUE(cache.free_slow(c, page, object));
    }
  }
  std::vector<void*> allocate_many(unsigned c, std::size_t count) {
    std::vector<void*> out;
    while (out.size() < count) out.push_back(allocate(c));
    return out;
  }
  void open_class(thread_cache& cache, unsigned c) { testing_support::open_class(*engine_, cache, c); }
  void release_all(unsigned c, const std::vector<void*>& objects) {
    for (void* object : objects) release(c, object);
  }

  void check_object(unsigned c, void* object) {
    const page_map::entry page = engine_->map.find(address_of(object));
    ASSERT_EQ(page.size_class(), c);
    ASSERT_FALSE(objects::is_free(page.owner(address_of(object)),
                                  objects::index_of(page.owner(address_of(object)), address_of(object))));
    if (freed_.count(object) != 0) {
      ASSERT_TRUE(hardened_build || free_mark::is_set(engine_->map, c, object));
    }
  }
  void check_bin(thread_cache& cache, unsigned c) {
    const thread_cache::bin& b = access::bin_of(cache, c);
    magazine* const m = access::loaded(cache, c);
    ASSERT_EQ(m->slots[0], nullptr);
    ASSERT_GE(b.top, m->bottom());
    ASSERT_LE(b.top, b.limit);
    ASSERT_LE(b.limit, m->bottom() + std::min<std::size_t>(m->capacity, access::most(cache, c)));
    for (void** slot = m->bottom(); slot < b.top; ++slot) check_object(c, *slot);
    for (std::size_t slot = 1; slot <= access::spare_count(cache, c); ++slot) {
      check_object(c, access::spare(cache, c)->slots[slot]);
    }
  }
  void check(thread_cache& cache) {
    std::size_t bytes = 0;
    for (unsigned c = 1; c < size_classes::all; ++c) {
      check_bin(cache, c);
      if (HasFatalFailure()) return;
      bytes += 2 * access::most(cache, c) * size_classes::most_block_bytes(c);
    }
    ASSERT_EQ(access::capacity_bytes(cache), bytes);
    cache.validate();
  }

  std::size_t capacity_of(unsigned c) { return access::loaded(cache_, c)->capacity; }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  thread_cache cache_{engine_->central_tier, engine_->budget};
  thread_cache other_{engine_->central_tier, engine_->budget};
  std::set<void*> freed_;  // objects that were freed at least once
};

}  // namespace tarn
