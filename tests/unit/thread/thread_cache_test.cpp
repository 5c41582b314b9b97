// SPDX-License-Identifier: MIT
// thread_cache: what it takes and gives, growth of magazines, the budget, and its invariants after each step.
#include "thread/thread_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "broken_invariant.hpp"
#include "central/objects.hpp"
#include "own_engine.hpp"

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

namespace {

using access = thread_cache_test_access;

constexpr unsigned small = 5;  // objects of 64 bytes

class thread_cache_test : public testing::Test {
 protected:
  // No guarded allocation is due, except in tests that change until_sample.
  thread_cache_test() {
    for (unsigned c = 0; c < size_classes::all; ++c) {
      for (thread_cache* cache : {&cache_, &other_})
        access::bin_of(*cache, c).samples.until_sample = class_countdown::longest_step;
    }
  }
  void* allocate(unsigned c) {
    void* object = cache_.pop(c);
    if (object == nullptr) object = cache_.allocate_slow(c);
    EXPECT_FALSE(free_mark::is_set(object));
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
    ASSERT_FALSE(objects::is_free(page.owner(), objects::index_of(page.owner(), address_of(object))));
    if (freed_.count(object) != 0) {
      ASSERT_TRUE(hardened_build || free_mark::is_set(object));
    }
  }
  void check_bin(thread_cache& cache, unsigned c) {
    const thread_cache::bin& b = access::bin_of(cache, c);
    magazine* const m = access::loaded(cache, c);
    ASSERT_EQ(m->slots[0], nullptr);
    ASSERT_GE(b.top, m->bottom());
    ASSERT_LE(b.top, b.limit);
    ASSERT_LE(b.limit, m->bottom() + std::min<std::size_t>(m->capacity, class_info(c).magazine));
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

TEST_F(thread_cache_test, an_empty_cache_gives_and_takes_nothing) {
  static thread_cache none{thread_cache::empty_tag{}};
  void* const object = allocate(small);
  for (unsigned c = 0; c < size_classes::count; ++c) EXPECT_EQ(none.pop(c), nullptr);
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
    void* object = cache_.pop(small);
    if (object == nullptr) {
      ++calls;
      if (cache_.choose(small, windows, profile) == sample_kind::guarded) {
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
    void* object = cache_.pop(small);
    if (object == nullptr) {
      ASSERT_EQ(cache_.choose(small, windows, profile), sample_kind::none);
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

TEST_F(thread_cache_test, an_object_that_is_in_the_magazine_is_not_taken_again) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  const auto objects = allocate_many(small, 8);
  release_all(small, objects);
  for (void* object : objects) {
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object)), object));
  }
  EXPECT_EQ(allocate(small), objects.back());
  EXPECT_TRUE(cache_.push(engine_->map.find(address_of(objects.back())), objects.back()));
}

TEST_F(thread_cache_test, an_object_in_the_spare_magazine_is_not_taken_again) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  const auto objects = allocate_many(small, 3000);
  release_all(small, objects);
  ASSERT_TRUE(access::has_spare(cache_, small));
  const magazine* const spare = access::spare(cache_, small);
  ASSERT_NE(spare->count, 0U);
  for (std::size_t slot = 1; slot <= spare->count; ++slot) {
    void* const object = spare->slots[slot];
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object)), object)) << slot;
  }
}

TEST_F(thread_cache_test, an_object_that_another_thread_freed_is_not_taken) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  const auto objects = allocate_many(small, 8);
  for (void* object : objects) release_to(other_, small, object);
  for (void* object : objects) {
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object)), object));
  }
}

TEST_F(thread_cache_test, only_the_first_byte_of_an_object_is_taken) {
  open_class(cache_, small);
  auto* const object = static_cast<char*>(allocate(small));
  for (std::size_t i = 1; i < class_info(small).size; ++i) {
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object + i)), object + i)) << i;
  }
  EXPECT_TRUE(cache_.push(engine_->map.find(address_of(object)), object));
}

TEST_F(thread_cache_test, what_is_left_over_of_a_span_is_no_object) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    void* const object = allocate(c);
    const span* s = engine_->map.span_of(address_of(object));
    for (std::uintptr_t at = s->start; at < objects::first_of(s); at += 8) {
      ASSERT_FALSE(cache_.push(engine_->map.find(at), reinterpret_cast<void*>(at))) << class_info(c).size;
    }
    release(c, object);
  }
}

TEST_F(thread_cache_test, an_object_that_is_in_its_span_is_not_taken) {
  const auto objects = allocate_many(small, 4);
  release(small, objects[0]);
  cache_.flush_all();
  EXPECT_FALSE(cache_.push(engine_->map.find(address_of(objects[0])), objects[0]));
}

TEST_F(thread_cache_test, full_magazines_go_from_thread_to_thread_whole) {
  open_class(other_, small);
  while (other_.pop(small) != nullptr) {
  }
  // Grows cache_'s magazines to the largest size.
  for (int i = 0; i < 40; ++i) release_all(small, allocate_many(small, 1000));
  const auto& counters = engine_->central_tier.depot(small).counters;
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

TEST_F(thread_cache_test, a_cache_holds_no_more_than_its_limit) {
  for (int round = 0; round < 12; ++round) {
    for (unsigned c = 1; c < size_classes::count; ++c) {
      release_all(c, allocate_many(c, 3 * class_info(c).magazine + 10U));
    }
  }
  EXPECT_LE(access::capacity_bytes(cache_), 2 * (2 * mib));
  check(cache_);
}

TEST_F(thread_cache_test, without_budget_no_class_has_a_place) {
  engine_->budget.limit = 0;
  for (int round = 0; round < 10; ++round) release_all(small, allocate_many(small, 1000));
  EXPECT_TRUE(access::is_empty_bin(cache_, small));
  EXPECT_EQ(cache_.cached_bytes(), 0U);
  check(cache_);
}

TEST_F(thread_cache_test, what_was_used_once_leaves_nothing_behind) {
  std::vector<void*> objects;
  for (unsigned c = 1; c < size_classes::count; ++c) objects.push_back(allocate(c));
  for (unsigned c = 1; c < size_classes::count; ++c) release(c, objects[c - 1]);
  EXPECT_EQ(cache_.cached_bytes(), 0U);
  EXPECT_EQ(access::capacity_bytes(cache_), 0U);
  engine_->central_tier.release_spares(true);
  EXPECT_EQ(engine_->heap.stats().in_use, 0U);
}

TEST_F(thread_cache_test, every_class_gets_a_place_when_it_is_used_again_and_again) {
  engine_->budget.limit = 1 * gib;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    thread_cache cache{engine_->central_tier, engine_->budget};
    open_class(cache, c);
    EXPECT_FALSE(access::is_empty_bin(cache, c)) << class_info(c).size;
    cache.flush_all();
  }
}

TEST_F(thread_cache_test, a_magazine_of_another_thread_is_cut_to_the_budget) {
  for (int i = 0; i < 40; ++i) release_all(small, allocate_many(small, 1000));
  open_class(other_, small);
  while (other_.pop(small) != nullptr) {
  }
  engine_->budget.limit = 0;
  void* const object = other_.allocate_slow(small);
  other_.validate();
  release_to(other_, small, object);
  check(other_);
}

// The bound in thread_cache.hpp holds for random mixes of sizes, numbers of caches and budgets, while objects move from
// cache to cache.
TEST_F(thread_cache_test, what_caches_keep_is_bounded_for_any_mix_of_sizes) {
  std::mt19937_64 random(42);
  const int trials = TARN_TSAN ? 5 : 30;  // one thread has no races to find
  for (int trial = 0; trial < trials; ++trial) {
    engine_->budget.limit = std::size_t{1} << (16 + random() % 9);
    std::vector<std::unique_ptr<thread_cache>> caches(1 + random() % 40);
    engine_->budget.caches = caches.size();
    for (auto& cache : caches) cache = std::make_unique<thread_cache>(engine_->central_tier, engine_->budget);
    std::vector<std::pair<unsigned, void*>> live;
    std::size_t bytes = 0;  // in `live`
    const auto lowest = static_cast<unsigned>(1 + random() % (size_classes::count - 1));
    const auto classes = static_cast<unsigned>(1 + random() % (size_classes::count - lowest));
    for (int step = 0; step < 3000; ++step) {
      thread_cache& cache = *caches[random() % caches.size()];
      const auto c = static_cast<unsigned>(lowest + random() % classes);
      for (auto burst = random() % 40; burst != 0; --burst, bytes += class_info(c).size)
        live.emplace_back(c, testing_support::take(cache, c));
      while (bytes > 8 * mib || (!live.empty() && random() % 30 != 0)) {
        std::swap(live[random() % live.size()], live.back());
        bytes -= class_info(live.back().first).size;
        ASSERT_TRUE(testing_support::give(*engine_, *caches[random() % caches.size()], live.back().second));
        live.pop_back();
      }
    }
    std::size_t held = 0;
    std::size_t capacity = 0;
    for (const auto& cache : caches) {
      cache->validate();
      held += cache->cached_bytes();
      capacity += cache->capacity_bytes();
    }
    ASSERT_LE(held, capacity) << trial;
    ASSERT_EQ(capacity, engine_->budget.used.load()) << trial;
    ASSERT_LE(capacity, engine_->budget.limit.load()) << trial;
    for (const auto& [c, object] : live) testing_support::give(*engine_, *caches[0], object);
    for (const auto& cache : caches) cache->flush_all();
    ASSERT_EQ(engine_->budget.used.load(), 0U);
  }
}

TEST_F(thread_cache_test, the_budget_counts_the_magazines_of_all_caches) {
  release_all(small, allocate_many(small, 3000));
  release_to(other_, 20, other_.allocate_slow(20));
  EXPECT_EQ(engine_->budget.used.load(), access::capacity_bytes(cache_) + access::capacity_bytes(other_));
  cache_.flush_all();
  other_.flush_all();
  EXPECT_EQ(engine_->budget.used.load(), 0U);
}

// blocks_: live blocks of one grain class.
class freed_grains_test : public thread_cache_test {
 protected:
  static constexpr unsigned new_class = 27;

  void SetUp() override {
    if (hardened_build) GTEST_SKIP() << "the hardened build divides no span";
    constexpr unsigned old_class = 22;
    const auto objects = allocate_many(old_class, 4 * mib / class_info(old_class).size);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      if (i % 8 != 0) release(old_class, objects[i]);
    }
    cache_.flush_all();
    engine_->central_tier.flush_idle_magazines(true);
    engine_->central_tier.release_spares(true);
    engine_->heap.trim(0);
    for (void* block : allocate_many(new_class, 400)) {
      const auto c = static_cast<unsigned>(engine_->map.class_of(address_of(block)));
      if (size_classes::is_grain(c)) blocks_.emplace_back(c, block);
    }
    ASSERT_GE(blocks_.size(), 100U);
    grain_ = blocks_.front().first;
    std::erase_if(blocks_, [this](const auto& block) { return block.first != grain_; });
    ASSERT_GE(blocks_.size(), 100U);
  }
  void free_one() {
    if (blocks_.empty()) throw std::runtime_error("the cache has no magazine for blocks of grains");
    ASSERT_TRUE(testing_support::give(*engine_, cache_, blocks_.back().second));
    blocks_.pop_back();
  }
  // Frees blocks until the cache has a magazine for them; then the given number.
  void free_into_magazine(std::size_t count) {
    while (access::is_empty_bin(cache_, grain_)) free_one();
    for (; count != 0; --count) free_one();
  }
  std::size_t waiting() {
    magazine* const m = access::loaded(cache_, grain_);
    const auto loaded = static_cast<std::size_t>(access::bin_of(cache_, grain_).top - m->bottom());
    return loaded + access::spare_count(cache_, grain_);
  }
  std::uint64_t flushes() { return engine_->central_tier.depot(grain_).counters.flushes.load(); }

  std::vector<std::pair<unsigned, void*>> blocks_;
  unsigned grain_ = 0;
};

TEST_F(freed_grains_test, they_wait_in_a_magazine_for_the_next_refill) {
  free_into_magazine(40);
  const std::uint64_t before = flushes();
  const std::size_t were_waiting = waiting();
  EXPECT_GE(capacity_of(grain_), class_info(grain_).magazine);
  free_one();
  free_one();
  EXPECT_LE(flushes(), before + 1) << "each block was put back by itself";
  EXPECT_GT(waiting(), 0U);
  EXPECT_LE(waiting(), were_waiting + 2);
  cache_.validate();
  const auto refills = [&] { return engine_->central_tier.depot(new_class).counters.refills.load(); };
  for (const std::uint64_t count = refills(); refills() == count;) allocate(new_class);
  EXPECT_EQ(waiting(), 0U);
  cache_.validate();
  engine_->central_tier.validate();
}

TEST_F(freed_grains_test, they_are_paid_for_and_leave_with_the_cache) {
  free_into_magazine(40);
  check(cache_);
  EXPECT_LE(cache_.cached_bytes(), cache_.capacity_bytes());
  cache_.flush_all();
  EXPECT_EQ(cache_.cached_bytes(), 0U);
  EXPECT_EQ(cache_.capacity_bytes(), 0U);
  EXPECT_EQ(engine_->budget.used.load(), 0U);
}

TEST_F(freed_grains_test, none_stays_in_the_cache_of_a_sleeping_thread) {
  free_into_magazine(3);
  cache_.take_surplus(false);
  cache_.claim();
  cache_.empty_while_idle();
  cache_.end_claim();
  EXPECT_EQ(waiting() - access::holes(cache_, grain_), 0U);
  free_one();
  cache_.flush_all();
  EXPECT_EQ(cache_.cached_bytes(), 0U);
}

TEST_F(freed_grains_test, a_block_that_waits_is_not_taken_twice) {
  free_into_magazine(1);
  void* const block = blocks_.back().second;
  free_one();
  EXPECT_FALSE(testing_support::give(*engine_, cache_, block));
  cache_.flush_all();
  EXPECT_FALSE(testing_support::give(*engine_, cache_, block)) << "it lies free in its span";
}

TEST_F(freed_grains_test, a_pointer_into_a_block_is_found_when_it_goes_back) {
  free_into_magazine(1);
  auto* const inside = static_cast<char*>(blocks_.back().second) + class_info(grain_).size;
  EXPECT_DEATH(
      {
        testing_support::give(*engine_, cache_, inside);
        cache_.flush_all();
      },
      "into a block");
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

TEST_F(thread_cache_test, the_surplus_of_an_idle_thread_is_taken_once) {
  release_all(small, allocate_many(small, 3000));
  ASSERT_TRUE(access::has_spare(cache_, small));
  EXPECT_TRUE(cache_.take_surplus(true)) << "the thread has been active since the last call";
  EXPECT_TRUE(access::has_spare(cache_, small));
  EXPECT_FALSE(cache_.take_surplus(true));
  EXPECT_FALSE(access::has_spare(cache_, small));
  EXPECT_FALSE(cache_.take_surplus(true));
  check(cache_);
  // The thread goes on.
  release_all(small, allocate_many(small, 3000));
  check(cache_);
}

TEST_F(thread_cache_test, surplus_is_taken_from_an_active_thread_when_asked) {
  release_all(small, allocate_many(small, 3000));
  EXPECT_FALSE(cache_.take_surplus(false));
  EXPECT_FALSE(access::has_spare(cache_, small));
}

TEST_F(thread_cache_test, classes_out_of_use_are_given_up) {
  constexpr unsigned idle = 30;
  release_all(idle, allocate_many(idle, 50));
  ASSERT_FALSE(access::is_empty_bin(cache_, idle));
  // Causes slow calls in another class, whose magazines run full and empty.
  for (int i = 0; i < 60000 && !access::is_empty_bin(cache_, idle); ++i) {
    cache_.take_surplus(false);
    const auto objects = allocate_many(small, 700);
    release_all(small, objects);
  }
  EXPECT_TRUE(access::is_empty_bin(cache_, idle));
  EXPECT_FALSE(access::is_empty_bin(cache_, small));
  check(cache_);
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
    EXPECT_BROKEN(cache_.validate(), "thread_cache",
                  "is_hole ? *slot == nullptr : hardened_build || free_mark::is_set(*slot)", &cache_);
    free_mark::set(bin.top[-1]);
  }
  cache_.validate();
}

}  // namespace
}  // namespace tarn
