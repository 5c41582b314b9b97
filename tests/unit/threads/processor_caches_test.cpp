// SPDX-License-Identifier: MIT
// processor_caches: who uses them, hits and misses, bounds, draining, forked children.
#include "threads/processor_caches.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../../child_status.hpp"
#include "own_engine.hpp"

namespace tarn {

class processor_caches_test_access {
 public:
  static std::size_t busy_bins(processor_caches& caches) {
    std::size_t busy = 0;
    for (auto* t = caches.tables_.load(); t != nullptr; t = t->next) {
      for (const auto& word : t->words) busy += word.load() == processor_caches::busy() ? 1 : 0;
    }
    return busy;
  }
  static std::size_t processors(processor_caches& caches) {
    std::size_t count = 0;
    for (auto* t = caches.tables_.load(); t != nullptr; t = t->next) ++count;
    return count;
  }
};

namespace {

class processor_caches_test : public testing::Test {
 protected:
  void SetUp() override {
    caches_.set_use(processor_caches::use::on);
    own_ = engine_->registry.create();
    if (caches_.choose_for_this_thread() != processor_caches::answer::processors)
      GTEST_SKIP() << "no restartable sequences";
  }
  void* take(unsigned size_class) {
    void* const object = caches_.pop(size_class);
    return object != nullptr ? object : caches_.allocate_slow(size_class);
  }
  void give(void* object) {
    const auto size_class = static_cast<unsigned>(engine_->map.class_of(address_of(object)));
    ASSERT_FALSE(free_mark::is_set(engine_->map, size_class, object));
    free_mark::set(engine_->map, size_class, object);
    if (!caches_.push(size_class, object)) caches_.free_slow(size_class, object);
  }
  std::vector<void*> take_many(unsigned size_class, std::size_t count) {
    std::vector<void*> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(take(size_class));
    return out;
  }
  // In the order of their addresses, which is not the one in which they were taken.
  void give_all(std::vector<void*> objects) {
    std::sort(objects.begin(), objects.end());
    for (void* const object : objects) give(object);
  }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  processor_caches caches_{engine_->central_tier, engine_->budget, engine_->registry};
  thread_cache* own_ = nullptr;
};

constexpr unsigned class_64 = 5;

TEST_F(processor_caches_test, serve_no_thread_when_off_or_while_there_are_few) {
  caches_.set_use(processor_caches::use::off);
  EXPECT_EQ(caches_.choose_for_this_thread(), processor_caches::answer::own);
  caches_.set_use(processor_caches::use::automatic);
  std::vector<thread_cache*> others;
  for (std::size_t i = 1; i < processor_caches::least_thread_caches; ++i) {
    EXPECT_EQ(caches_.choose_for_this_thread(), processor_caches::answer::own);
    others.push_back(engine_->registry.create());
  }
  const std::size_t more = std::thread::hardware_concurrency() * processor_caches::caches_per_processor;
  while (engine_->registry.count() < more) others.push_back(engine_->registry.create());
  EXPECT_EQ(caches_.choose_for_this_thread(), processor_caches::answer::own) << "nobody sees calls of vfork";
  caches_.note_vfork_is_followed();
  EXPECT_EQ(caches_.choose_for_this_thread(), processor_caches::answer::processors);
  engine_->registry.destroy(others.back());
  EXPECT_EQ(caches_.choose_for_this_thread(), processor_caches::answer::own);
}

TEST_F(processor_caches_test, objects_are_distinct_and_come_back) {
  std::vector<void*> objects = take_many(class_64, 5000);
  EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), objects.size());
  give_all(objects);
  EXPECT_GT(caches_.cached_bytes(), 0U);
  EXPECT_EQ(processor_caches_test_access::busy_bins(caches_), 0U);
}

TEST_F(processor_caches_test, a_pair_of_free_and_malloc_needs_no_lock) {
  give(take(class_64));
  for (int i = 0; i < 1000; ++i) {
    void* const object = take(class_64);
    free_mark::set(object);
    // Another processor's bin may have no room: the thread may have moved.
    if (!caches_.push(class_64, object)) caches_.free_slow(class_64, object);
  }
  const std::uint64_t refills = engine_->central_tier.depots().at(class_64).counters.refills;
  EXPECT_LE(refills, 2 * processor_caches_test_access::processors(caches_));
}

TEST_F(processor_caches_test, hold_at_most_their_bytes_of_all_classes) {
  for (int round = 0; round < 6; ++round) {
    for (unsigned c = 1; c < size_classes::count; ++c)
      give_all(take_many(c, std::max<std::size_t>(2 * 16 * kib / class_info(c).size, 3) + 12));
  }
  EXPECT_LE(caches_.cached_bytes(),
            processor_caches::most_bytes * processor_caches_test_access::processors(caches_));
  EXPECT_LE(caches_.cached_bytes(), engine_->budget.used.load());
}

TEST_F(processor_caches_test, hold_nothing_without_a_budget) {
  engine_->budget.limit = 0;
  give_all(take_many(class_64, 1000));
  EXPECT_EQ(caches_.cached_bytes(), 0U);
}

TEST_F(processor_caches_test, draining_leaves_nothing_and_refunds_the_budget) {
  give_all(take_many(class_64, 1000));
  give_all(take_many(class_64 + 20, 100));
  caches_.drain(true);
  EXPECT_EQ(caches_.cached_bytes(), 0U);
  EXPECT_EQ(engine_->budget.used.load(), own_->capacity_bytes());
  EXPECT_EQ(take_many(class_64, 10).size(), 10U);  // and they work afterwards
  EXPECT_GT(caches_.cached_bytes(), 0U);
}

TEST_F(processor_caches_test, periods_drain_what_was_not_used_in_one) {
  give_all(take_many(class_64, 1000));
  EXPECT_TRUE(caches_.end_period());
  const std::vector<void*> live = take_many(class_64, 7);
  EXPECT_TRUE(caches_.end_period());
  EXPECT_FALSE(caches_.end_period());
  caches_.drain(false);
  EXPECT_EQ(caches_.cached_bytes(), 0U);
  EXPECT_EQ(engine_->budget.used.load(), own_->capacity_bytes());
}

TEST_F(processor_caches_test, a_magazine_of_a_thread_that_is_larger_is_cut) {
  testing_support::open_class(*engine_, *own_, 40);
  std::vector<void*> objects;
  for (int i = 0; i < 2000; ++i) objects.push_back(testing_support::take(*engine_, *own_, 40));
  for (void* const object : objects) testing_support::give(*engine_, *own_, object);
  own_->flush_all();
  give_all(take_many(40, 500));
  EXPECT_LE(caches_.cached_bytes(), engine_->budget.used.load());
}

TEST_F(processor_caches_test, a_forked_child_starts_with_empty_bins) {
  const std::vector<void*> live = take_many(class_64, 100);
  give_all(take_many(class_64, 1000));
  ASSERT_GT(caches_.cached_bytes(), 0U);
  const auto starts_empty = [this, &live] {
    bool good = caches_.cached_bytes() == 0 && caches_.pop(class_64) == nullptr;
    const std::vector<void*> objects = take_many(class_64, 1000);
    for (void* const object : live) {
      good = good && std::find(objects.begin(), objects.end(), object) == objects.end();
    }
    give_all(objects);
    good = good && caches_.cached_bytes() != 0;
    caches_.drain(true);
    return good && caches_.cached_bytes() == 0 ? 0 : 1;
  };
  EXPECT_EQ(testing_support::child_status(starts_empty), 0);
  EXPECT_GT(caches_.cached_bytes(), 0U);
}

// Four threads move objects through a shared table, hop between processors and check contents, while others drain.
TEST_F(processor_caches_test, no_object_has_two_owners) {
  constexpr std::size_t places = 512;
  static std::atomic<void*> shared[places];
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0};
  const auto stamp = [](void* object, std::size_t size) {
    std::memset(object, static_cast<int>(address_of(object) >> 4 & 0x7f), size);
  };
  const auto is_stamped = [](const void* object, std::size_t size) {
    const auto* const bytes = static_cast<const unsigned char*>(object);
    const auto value = static_cast<unsigned char>(address_of(object) >> 4 & 0x7f);
    return std::all_of(bytes, bytes + size, [value](unsigned char b) { return b == value; });
  };
  const auto check_and_give = [&](void* object) {
    const std::size_t size =
        class_info(static_cast<unsigned>(engine_->map.class_of(address_of(object)))).size;
    if (!is_stamped(object, size)) ++wrong;
    std::memset(object, 0xee, size);
    give(object);
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      for (int i = 0; i < 200'000; ++i) {
        std::atomic<void*>& place = shared[random() % places];
        if (void* const object = place.exchange(nullptr)) check_and_give(object);
        const unsigned c = 2 + static_cast<unsigned>(random() % 30);
        void* const object = take(c);
        stamp(object, class_info(c).size);
        if (void* const other = place.exchange(object)) check_and_give(other);
        if (i % 1000 == 0) {
          cpu_set_t set;
          CPU_ZERO(&set);
          CPU_SET((t + static_cast<unsigned>(i) / 1000) % std::max(std::thread::hardware_concurrency(), 1U),
                  &set);
          sched_setaffinity(0, sizeof set, &set);
        }
      }
    });
  }
  std::thread drainer([&] {
    while (!ends.load()) {
      caches_.end_period();
      caches_.drain(false);
      caches_.drain(true);
    }
  });
  for (std::thread& t : threads) t.join();
  ends.store(true);
  drainer.join();
  for (auto& place : shared) {
    if (void* const object = place.exchange(nullptr)) check_and_give(object);
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(processor_caches_test_access::busy_bins(caches_), 0U);
  caches_.drain(true);
  EXPECT_EQ(caches_.cached_bytes(), 0U);
  EXPECT_EQ(engine_->budget.used.load(), own_->capacity_bytes());
  engine_->central_tier.depots().validate();
}

}  // namespace
}  // namespace tarn
