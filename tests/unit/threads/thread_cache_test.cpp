// SPDX-License-Identifier: MIT
// thread_cache: what it takes and gives, growth of magazines, guarded allocations, and its invariants.
#include "threads/thread_cache.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "broken_invariant.hpp"
#include "thread_cache_fixture.hpp"

namespace tarn {
namespace {

class thread_cache_test : public thread_cache_fixture {};

TEST_F(thread_cache_test, an_empty_cache_gives_and_takes_nothing) {
  static thread_cache none{thread_cache::empty_tag{}};
  void* const object = allocate(small);
  for (std::size_t size = 0; size <= size_classes::fine_end; ++size) EXPECT_EQ(none.pop_fine(size), nullptr);
  EXPECT_FALSE(none.push(engine_->map.find(address_of(object)), object));
  std::uint64_t local = 0;
  EXPECT_FALSE(none.push(engine_->map.find(address_of(&local)), &local));
  EXPECT_EQ(none.cached_bytes(), 0U);
}

TEST_F(thread_cache_test, every_class_gives_distinct_objects_and_takes_them_back) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const auto objects = allocate_many(c, class_info(c).objects * 2U + 3);
    ASSERT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), objects.size());
    release_all(c, objects);
  }
  check(cache_);
}

// Each object is freed at once, so that no magazine runs empty and only guarded allocations take the slow path.
TEST_F(thread_cache_test, each_window_has_one_guarded_allocation) {
  constexpr int length = 1000;
  constexpr int rounds = 20;
  access::bin_of(cache_, small).samples.until_sample = 0;
  sample_windows windows;
  byte_samples profile;
  windows.set_length(length);
  int samples = 0;
  std::set<int> places;
  int calls = 0;
  for (int i = 0; i < rounds * length; ++i) {
    void* object = testing_support::pop(*engine_, cache_, small);
    if (object == nullptr) {
      ++calls;
      if (cache_.pick_sample(small, windows, profile) == sample_kind::guarded) {
        places.insert(i % length);
        ++samples;
        continue;
      }
      object = cache_.allocate_slow(small);
    }
    release(small, object);
  }
  EXPECT_GE(samples, rounds - 1);
  EXPECT_LE(samples, rounds);
  EXPECT_GT(places.size(), 10U) << "the guarded allocations' places in the windows are not random";
  EXPECT_LE(calls, samples + 3);
}

TEST_F(thread_cache_test, without_windows_nothing_is_guarded) {
  access::bin_of(cache_, small).samples.until_sample = 0;
  sample_windows windows;
  byte_samples profile;
  windows.set_length(0);
  for (int i = 0; i < 3 * sample_windows::off_interval; ++i) {
    void* object = testing_support::pop(*engine_, cache_, small);
    if (object == nullptr) {
      ASSERT_EQ(cache_.pick_sample(small, windows, profile), sample_kind::none);
      object = cache_.allocate_slow(small);
    }
    release(small, object);
  }
}

TEST_F(thread_cache_test, the_last_object_freed_is_the_first_given) {
  void* const a = allocate(small);
  void* const b = allocate(small);
  release(small, a);
  release(small, b);
  EXPECT_EQ(allocate(small), b);
  EXPECT_EQ(allocate(small), a);
}

TEST_F(thread_cache_test, magazines_start_small_and_grow_with_demand) {
  open_class(cache_, small);
  EXPECT_EQ(capacity_of(small), magazine_store::capacities[0]);
  std::size_t last = capacity_of(small);
  for (int round = 0; round < 40; ++round) {
    release_all(small, allocate_many(small, 1000));
    EXPECT_GE(capacity_of(small), last);
    last = capacity_of(small);
    check(cache_);
  }
  EXPECT_EQ(last, largest_magazine);
}

TEST_F(thread_cache_test, objects_keep_their_slots_when_a_magazine_grows) {
  // Frees only, so that the loaded magazine is full of objects when it grows.
  int times_grown = 0;
  std::size_t last = 0;
  for (void* object : allocate_many(small, 3000)) {
    release_to(other_, small, object);
    check_bin(other_, small);
    const std::size_t capacity = access::loaded(other_, small)->capacity;
    times_grown += capacity > last ? 1 : 0;
    last = capacity;
  }
  EXPECT_EQ(times_grown, 3) << "the magazine must grow from none through all three sizes";
}

TEST_F(thread_cache_test, full_magazines_go_from_thread_to_thread_whole) {
  open_class(other_, small);
  while (testing_support::pop(*engine_, other_, small) != nullptr) {
  }
  // Grows cache_'s magazines to the largest size.
  for (int i = 0; i < 40; ++i) release_all(small, allocate_many(small, 1000));
  const auto& counters = engine_->central_tier.depots().at(small).counters;
  release_all(small, allocate_many(small, 5000));
  const std::uint64_t before = counters.exchanges.load();
  const std::uint64_t refills = counters.refills.load();
  void* const object = other_.allocate_slow(small);
  EXPECT_EQ(counters.exchanges.load(), before + 1);
  EXPECT_EQ(counters.refills.load(), refills) << "the objects came from a span";
  EXPECT_EQ(access::loaded(other_, small)->capacity, largest_magazine);
  release_to(other_, small, object);
  check(cache_);
  check(other_);
}

TEST_F(thread_cache_test, flushed_it_holds_nothing) {
  for (unsigned c = 1; c < size_classes::count; ++c) release_all(c, allocate_many(c, 100));
  EXPECT_NE(cache_.cached_bytes(), 0U);
  cache_.flush_all();
  EXPECT_EQ(cache_.cached_bytes(), 0U);
  EXPECT_EQ(access::capacity_bytes(cache_), 0U);
  for (unsigned c = 1; c < size_classes::count; ++c) {
    EXPECT_TRUE(access::is_empty_bin(cache_, c));
  }
  engine_->central_tier.flush_idle_magazines(true);
  engine_->central_tier.release_spares(true);
  EXPECT_EQ(engine_->heap.stats().in_use, 0U);
}

TEST_F(thread_cache_test, cached_bytes_are_those_of_the_objects_in_it) {
  const auto objects = allocate_many(small, 8);
  const std::size_t before = cache_.cached_bytes();
  release_all(small, objects);
  EXPECT_EQ(cache_.cached_bytes(), before + 8 * class_info(small).size);
}

TEST_F(thread_cache_test, finds_a_broken_invariant) {
  open_class(cache_, small);
  release_all(small, allocate_many(small, 3));
  cache_.validate();
  thread_cache::bin& bin = access::bin_of(cache_, small);
  magazine* const m = access::loaded(cache_, small);
  ++access::capacity_bytes(cache_);
  EXPECT_BROKEN(cache_.validate(), "thread_cache", "capacity_bytes_ == capacity", &cache_);
  --access::capacity_bytes(cache_);
  const std::size_t used = engine_->budget.used.exchange(0);
  EXPECT_BROKEN(cache_.validate(), "thread_cache",
                "capacity <= budget_->used.load(std::memory_order_relaxed)", &cache_);
  engine_->budget.used.store(used);
  void** const limit = std::exchange(bin.limit, m->bottom() + m->capacity + 1);
  EXPECT_BROKEN(cache_.validate(), "thread_cache", "room <= most && room <= m->capacity", &cache_);
  bin.limit = bin.top - 1;
  EXPECT_BROKEN(cache_.validate(), "thread_cache", "m->slots < b.top && b.top <= b.limit", &cache_);
  bin.limit = limit;
  m->slots[0] = m;
  EXPECT_BROKEN(cache_.validate(), "thread_cache", "m->slots[0] == nullptr", &cache_);
  m->slots[0] = nullptr;
  if (!hardened_build) {
    free_mark::clear(bin.top[-1]);
    EXPECT_BROKEN(cache_.validate(), "thread_cache", "is_sound", &cache_);
    free_mark::set(bin.top[-1]);
  }
  cache_.validate();
}

}  // namespace
}  // namespace tarn
