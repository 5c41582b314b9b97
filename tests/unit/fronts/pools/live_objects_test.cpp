// SPDX-License-Identifier: MIT
// for_each and erase_if of object_pool and local_pool: exactly the live objects, wherever free slots lie.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "fronts/pools/pool_support.hpp"
#include "tarn/pool.hpp"
#include "tarn/process.hpp"

namespace {

using tarn::testing_support::stamped;
using tarn::testing_support::under_thread_sanitizer;

template <class Pool>
std::vector<stamped*> visited_in(const Pool& pool) {
  std::vector<stamped*> seen;
  pool.for_each([&seen](stamped& object) { seen.push_back(&object); });
  return seen;
}

// The objects are visited once each, in the order of their addresses.
template <class Pool>
void expect_exactly(const Pool& pool, std::vector<stamped*> live) {
  const std::vector<stamped*> seen = visited_in(pool);
  std::sort(live.begin(), live.end());
  ASSERT_EQ(seen.size(), live.size());
  ASSERT_TRUE(seen == live);
}

template <class Pool>
class live_objects : public testing::Test {
 protected:
  Pool pool_;
};
using iterable_pools = testing::Types<tarn::local_pool<stamped>, tarn::object_pool<stamped>>;
TYPED_TEST_SUITE(live_objects, iterable_pools);

TYPED_TEST(live_objects, a_new_pool_has_none) {
  expect_exactly(this->pool_, {});
  EXPECT_EQ(this->pool_.erase_if([](stamped&) { return true; }), 0U);
}

TYPED_TEST(live_objects, a_slot_in_a_magazine_is_not_visited) {
  stamped* const one = this->pool_.create(1U);
  stamped* const two = this->pool_.create(2U);
  this->pool_.destroy(one);
  expect_exactly(this->pool_, {two});
  this->pool_.destroy(two);
  expect_exactly(this->pool_, {});
}

TYPED_TEST(live_objects, exactly_the_live_ones_after_many_changes) {
  std::mt19937 random(7);
  std::vector<stamped*> live;
  for (int round = 0; round < 40; ++round) {
    // Fills and empties, so that slots lie in spans, in both magazines and in full ones.
    const bool fills = round % 4 < 2;
    for (int step = 0; step < 4000; ++step) {
      if (live.empty() || random() % 10 < (fills ? 9U : 1U)) {
        live.push_back(this->pool_.create(random()));
      } else {
        std::swap(live[random() % live.size()], live.back());
        this->pool_.destroy(live.back());
        live.pop_back();
      }
    }
    expect_exactly(this->pool_, live);
    if (round % 10 == 9) this->pool_.trim();
    expect_exactly(this->pool_, live);
  }
  EXPECT_EQ(this->pool_.erase_if([](stamped& object) { return object.is_whole(); }), live.size());
  expect_exactly(this->pool_, {});
  EXPECT_EQ(this->pool_.stats().live, 0U);
}

TYPED_TEST(live_objects, visit_may_destroy_its_object_and_create_others) {
  std::vector<stamped*> live;
  for (std::uint64_t i = 0; i < 3000; ++i) live.push_back(this->pool_.create(i));
  std::size_t visits = 0;
  std::vector<stamped*> made;
  this->pool_.for_each([&](stamped& object) {
    ++visits;
    if (object.number % 2 == 0) this->pool_.destroy(&object);
    made.push_back(this->pool_.create(1000000U + visits));
  });
  EXPECT_EQ(visits, live.size());
  EXPECT_EQ(visited_in(this->pool_).size(), live.size() / 2 + made.size());
  EXPECT_EQ(this->pool_.erase_if([](stamped& object) { return object.number >= 1000000U; }), made.size());
  EXPECT_EQ(this->pool_.erase_if([](stamped& object) { return object.number % 2 == 1; }), live.size() / 2);
  EXPECT_EQ(this->pool_.stats().live, 0U);
}

TYPED_TEST(live_objects, iterations_nest) {
  for (std::uint64_t i = 0; i < 10; ++i) (void)this->pool_.create(i);
  std::size_t pairs = 0;
  this->pool_.for_each([&](stamped&) { this->pool_.for_each([&](stamped&) { ++pairs; }); });
  EXPECT_EQ(pairs, 100U);
  this->pool_.erase_if([](stamped&) { return true; });
}

TYPED_TEST(live_objects, an_exception_ends_the_iteration_and_loses_nothing) {
  for (std::uint64_t i = 0; i < 100; ++i) (void)this->pool_.create(i);
  std::size_t visits = 0;
  EXPECT_THROW(this->pool_.for_each([&](stamped&) {
    if (++visits == 50) throw std::runtime_error("enough");
  }),
               std::runtime_error);
  EXPECT_EQ(visits, 50U);
  EXPECT_EQ(this->pool_.erase_if([](stamped&) { return true; }), 100U);
}

// Threads that are stopped keep free slots in both magazines; full magazines and other shards have some, too.
TEST(live_objects_of_threads, slots_in_magazines_of_other_threads_are_not_visited) {
  constexpr int threads = 6;
  constexpr int rounds = 12;
  tarn::object_pool<stamped> pool;
  std::vector<std::vector<stamped*>> live(threads);
  std::barrier stop(threads + 1);
  std::vector<std::jthread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < rounds; ++round) {
        stop.arrive_and_wait();
        auto& own = live[static_cast<std::size_t>(t)];
        for (int step = 0; step < 3000; ++step) {
          if (own.empty() || random() % 10 < (round % 2 == 0 ? 8U : 3U)) {
            own.push_back(pool.create(random()));
          } else {
            std::swap(own[random() % own.size()], own.back());
            pool.destroy(own.back());
            own.pop_back();
          }
        }
        stop.arrive_and_wait();
        stop.arrive_and_wait();  // the pool is being read
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    stop.arrive_and_wait();
    stop.arrive_and_wait();
    std::vector<stamped*> all;
    for (auto& own : live) {
      all.insert(all.end(), own.begin(), own.end());
      // Frees of another thread: slots of others' spans in this thread's magazines.
      while (own.size() > 500) {
        pool.destroy(own.back());
        all.erase(std::find(all.begin(), all.end(), own.back()));
        own.pop_back();
        if (all.size() % 64 == 0) break;
      }
    }
    expect_exactly(pool, all);
    stop.arrive_and_wait();
  }
  running.clear();
  std::size_t left = 0;
  for (const auto& own : live) left += own.size();
  EXPECT_EQ(pool.erase_if([](stamped&) { return true; }), left);
  EXPECT_EQ(pool.stats().live, 0U);
}

// The background thread, and tarn::trim() of other threads, move free slots at any moment.
TEST(live_objects_of_threads, other_threads_may_trim_meanwhile) {
  tarn::object_pool<stamped> pool;
  std::vector<stamped*> live;
  std::atomic<bool> ends{false};
  std::jthread trims([&ends] {
    while (!ends.load(std::memory_order_relaxed)) tarn::trim();
  });
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    for (int step = 0; step < 600; ++step) {
      if (live.empty() || random() % 2 == 0) {
        live.push_back(pool.create(random()));
      } else {
        std::swap(live[random() % live.size()], live.back());
        pool.destroy(live.back());
        live.pop_back();
      }
    }
    expect_exactly(pool, live);
  }
  ends = true;
  EXPECT_EQ(pool.erase_if([](stamped&) { return true; }), live.size());
}

TEST(live_objects_of_threads, a_thread_that_ends_leaves_its_objects) {
  tarn::object_pool<stamped> pool;
  std::vector<stamped*> live;
  std::thread([&] {
    for (std::uint64_t i = 0; i < 1000; ++i) live.push_back(pool.create(i));
    for (int i = 0; i < 300; ++i) {
      pool.destroy(live.back());
      live.pop_back();
    }
  }).join();
  expect_exactly(pool, live);
  EXPECT_EQ(pool.erase_if([](stamped&) { return true; }), live.size());
}

// 0: exactly the live objects; 1: others; 2: refused with ENOTSUP.
int result_in_child(const tarn::object_pool<stamped>& pool, std::size_t live) {
  const pid_t child = fork();
  if (child == 0) {
    int result = 1;
    try {
      result = visited_in(pool).size() == live ? 0 : 1;
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::not_supported) result = 2;
    }
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(live_objects_of_threads, a_forked_child_visits_them_or_refuses) {
  if (under_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer forbids threads after fork";
  tarn::object_pool<stamped> pool;
  std::vector<stamped*> live;
  for (std::uint64_t i = 0; i < 100; ++i) live.push_back(pool.create(i));
  pool.destroy(live.back());
  live.pop_back();
  EXPECT_EQ(result_in_child(pool, live.size()), 0) << "only this thread has a bin, which the child keeps";
  std::barrier step(2);
  std::jthread other([&] {
    pool.destroy(pool.create(1U));
    step.arrive_and_wait();
    step.arrive_and_wait();
  });
  step.arrive_and_wait();
  EXPECT_EQ(result_in_child(pool, live.size()), 2) << "the other thread's free slots are lost to the child";
  step.arrive_and_wait();
  other.join();
  EXPECT_EQ(pool.erase_if([](stamped&) { return true; }), live.size());
}

TEST(live_objects_of_threads, large_and_small_types) {
  struct alignas(4) small {
    unsigned number;
  };
  struct large {
    unsigned number = 0;
    char rest[70000];
  };
  tarn::local_pool<small> smalls;
  tarn::object_pool<large> larges;
  for (unsigned i = 0; i < 10000; ++i) (void)smalls.create(i);
  for (unsigned i = 0; i < 20; ++i) larges.create_for_overwrite()->number = i;
  std::set<unsigned> seen;
  smalls.for_each([&seen](small& each) { seen.insert(each.number); });
  EXPECT_EQ(seen.size(), 10000U);
  seen.clear();
  larges.for_each([&seen](large& each) { seen.insert(each.number); });
  EXPECT_EQ(seen.size(), 20U);
  smalls.erase_if([](small&) { return true; });
  larges.erase_if([](large&) { return true; });
}

TEST(live_objects_of_threads, sizes_of_pools_do_not_grow) {
  static_assert(sizeof(tarn::local_pool<stamped>) == 136);
  struct empty {};
  static_assert(sizeof(tarn::object_pool<stamped>) == 24 && std::is_empty_v<tarn::shared_pool<empty>>);
}

}  // namespace
