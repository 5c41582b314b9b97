// SPDX-License-Identifier: MIT
// thread_cache_registry: creation, destruction, adoption, fork, and caches that other threads empty.
#include "threads/registry.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "../../system_probes.hpp"
#include "broken_invariant.hpp"
#include "os/own_threads/thread.hpp"
#include "own_engine.hpp"

namespace tarn {
namespace {

class registry_test : public testing::Test {
 protected:
  std::vector<thread_cache*> used() {
    std::vector<thread_cache*> out;
    registry_.for_each([&out](thread_cache& cache) { out.push_back(&cache); });
    return out;
  }
  std::vector<thread_cache*> resting() {
    std::vector<thread_cache*> out;
    registry_.for_each_resting([&out](thread_cache& cache) { out.push_back(&cache); });
    return out;
  }
  thread_cache* of_another_thread() {
    thread_cache* cache = nullptr;
    std::thread([&] { cache = registry_.create(); }).join();
    return cache;
  }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  thread_cache_registry& registry_ = engine_->registry;
};

TEST_F(registry_test, knows_every_cache) {
  thread_cache* const a = registry_.create();
  thread_cache* const b = registry_.create();
  ASSERT_TRUE(a != nullptr && b != nullptr && a != b);
  EXPECT_EQ(a->thread_id, 0) << "with few caches, no system call asks for the thread's id";
  EXPECT_EQ(registry_.count(), 2U);
  EXPECT_EQ(used(), (std::vector<thread_cache*>{b, a}));
}

TEST_F(registry_test, a_destroyed_cache_with_few_objects_is_used_again_with_them) {
  if (hardened_build) GTEST_SKIP() << "the hardened build empties each cache at its thread's end";
  thread_cache* const a = registry_.create();
  thread_cache* const b = registry_.create();
  testing_support::open_class(*engine_, *a, 5);
  const std::size_t cached = a->cached_bytes();
  EXPECT_NE(cached, 0U);
  registry_.destroy(a);
  EXPECT_EQ(registry_.count(), 1U);
  EXPECT_EQ(used(), std::vector<thread_cache*>{b});
  EXPECT_EQ(resting(), std::vector<thread_cache*>{a});
  registry_.validate_locked();
  EXPECT_EQ(registry_.create(), a);
  EXPECT_EQ(a->cached_bytes(), cached);
  EXPECT_TRUE(resting().empty());
}

TEST_F(registry_test, the_budget_of_a_forked_child_has_the_resting_caches) {
  if (hardened_build) GTEST_SKIP() << "the hardened build empties each cache at its thread's end";
  thread_cache* const mine = registry_.create();
  thread_cache* const rests = registry_.create();
  testing_support::open_class(*engine_, *rests, 5);
  registry_.destroy(rests);
  registry_.keep_only(mine);
  EXPECT_EQ(engine_->budget.used.load(), mine->capacity_bytes() + rests->capacity_bytes());
  ASSERT_EQ(registry_.create(), rests);
  rests->flush_all();
  EXPECT_EQ(engine_->budget.used.load(), mine->capacity_bytes());
}

TEST_F(registry_test, a_cache_rests_for_one_to_two_periods) {
  if (hardened_build) GTEST_SKIP() << "the hardened build empties each cache at its thread's end";
  thread_cache* const a = registry_.create();
  thread_cache* const b = registry_.create();
  testing_support::open_class(*engine_, *a, 5);
  testing_support::open_class(*engine_, *b, 5);
  registry_.destroy(a);
  registry_.empty_resting(false);
  EXPECT_EQ(resting(), std::vector<thread_cache*>{a});
  registry_.destroy(b);
  EXPECT_EQ(resting(), (std::vector<thread_cache*>{b, a}));
  registry_.empty_resting(false);
  EXPECT_EQ(resting(), std::vector<thread_cache*>{b});
  EXPECT_EQ(a->cached_bytes(), 0U);
  EXPECT_NE(b->cached_bytes(), 0U);
  registry_.empty_resting(true);
  EXPECT_TRUE(resting().empty());
  EXPECT_FALSE(registry_.has_resting());
  EXPECT_EQ(b->cached_bytes(), 0U);
  registry_.validate_locked();
}

TEST_F(registry_test, a_cache_with_many_bytes_or_beyond_the_fourth_does_not_rest) {
  thread_cache* const large = registry_.create();
  std::vector<void*> objects;
  for (unsigned c = 20; c <= 60; ++c) {
    for (int i = 0; i < 100; ++i) objects.push_back(testing_support::take(*engine_, *large, c));
  }
  for (void* object : objects) ASSERT_TRUE(testing_support::give(*engine_, *large, object));
  ASSERT_GT(large->cached_bytes(), 256 * kib);
  registry_.destroy(large);
  EXPECT_TRUE(resting().empty());
  EXPECT_EQ(large->cached_bytes(), 0U);
  std::vector<thread_cache*> caches;
  for (int i = 0; i < 20; ++i) caches.push_back(registry_.create());
  for (thread_cache* cache : caches) testing_support::open_class(*engine_, *cache, 5);
  for (thread_cache* cache : caches) registry_.destroy(cache);
  EXPECT_EQ(resting().size(), hardened_build ? 0U : 4U);
  EXPECT_EQ(caches.back()->cached_bytes(), 0U);
  registry_.validate_locked();
}

TEST_F(registry_test, the_list_stays_whole_whichever_goes) {
  std::vector<thread_cache*> caches;
  for (int i = 0; i < 6; ++i) caches.push_back(registry_.create());
  for (const std::size_t i : {3U, 0U, 5U, 1U, 4U, 2U}) {
    registry_.destroy(caches[i]);
    caches[i] = nullptr;
    std::set<thread_cache*> expected(caches.begin(), caches.end());
    expected.erase(nullptr);
    const auto left = used();
    EXPECT_EQ(std::set<thread_cache*>(left.begin(), left.end()), expected);
    EXPECT_EQ(left.size(), registry_.count());
  }
}

TEST_F(registry_test, the_cache_of_a_thread_that_ended_unseen_is_adopted) {
  // The registry stores the thread ids of caches only when there are many caches.
  std::size_t created = 0;
  while (created < 70) {
    registry_.create();
    ++created;
  }
  thread_cache* left = nullptr;
  std::thread([&] {
    left = registry_.create();
    ++created;
    testing_support::open_class(*engine_, *left, 5);
  }).join();
  ASSERT_NE(left, nullptr);
  os::await_end_of_thread(left->thread_id);  // join() returns a little before the kernel removes the thread
  const std::size_t cached = left->cached_bytes();
  EXPECT_NE(cached, 0U);
  // create() looks at a few caches each time.
  thread_cache* mine = nullptr;
  while (mine != left && created < 300) {
    mine = registry_.create();
    ++created;
  }
  ASSERT_EQ(mine, left);
  EXPECT_EQ(mine->thread_id, syscall(SYS_gettid));
  EXPECT_EQ(mine->cached_bytes(), cached) << "the adopted cache has lost objects";
  EXPECT_EQ(registry_.count(), created - 1) << "a cache is counted twice";
}

TEST_F(registry_test, the_cache_of_a_living_thread_is_not_adopted) {
  std::set<thread_cache*> distinct;
  for (int i = 0; i < 200; ++i) distinct.insert(registry_.create());
  EXPECT_EQ(distinct.size(), 200U);
  EXPECT_EQ(registry_.count(), 200U);
}

TEST_F(registry_test, a_process_that_no_handler_of_fork_saw_adopts_nothing_of_its_parents) {
  std::set<thread_cache*> parents;
  for (int i = 0; i < 100; ++i) parents.insert(registry_.create());
  const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    // In the child, the thread ids of the parent's caches belong to no thread; still none of them may be adopted.
    for (int i = 0; i < 300; ++i) {
      if (parents.count(registry_.create()) != 0) _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  waitpid(static_cast<pid_t>(child), &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(registry_test, after_fork_only_the_childs_own_cache_is_in_use) {
  thread_cache* const a = registry_.create();
  thread_cache* const mine = registry_.create();
  thread_cache* const c = registry_.create();
  testing_support::open_class(*engine_, *mine, 3);
  registry_.keep_only(mine);
  EXPECT_EQ(used(), std::vector<thread_cache*>{mine});
  EXPECT_EQ(registry_.count(), 1U);
  EXPECT_EQ(engine_->budget.used.load(), mine->capacity_bytes());
  EXPECT_TRUE(resting().empty()) << "the contents of the other caches must not be used";
  const std::set<thread_cache*> again{of_another_thread(), of_another_thread()};
  EXPECT_EQ(again, (std::set<thread_cache*>{a, c})) << "their structures are not used again";
  std::thread([this] { registry_.keep_only(nullptr); }).join();  // a thread without a cache
  EXPECT_TRUE(used().empty());
  EXPECT_EQ(registry_.count(), 0U);
  EXPECT_EQ(engine_->budget.used.load(), 0U);
}

// A handler may fork between create() and the moment from which the thread knows its cache.
TEST_F(registry_test, after_fork_the_child_keeps_a_cache_that_its_thread_does_not_know_yet) {
  of_another_thread();
  thread_cache* const mine = registry_.create();
  registry_.keep_only(nullptr);
  EXPECT_EQ(used(), std::vector<thread_cache*>{mine});
  registry_.destroy(mine);
  EXPECT_TRUE(used().empty());
}

// If a thread of the parent was changing its cache at the fork, the child's copy may contain objects that are in use,
// or invalid pointers.
TEST_F(registry_test, a_cache_that_was_copied_while_it_was_used_is_not_trusted) {
  thread_cache* const torn = of_another_thread();
  testing_support::open_class(*engine_, *torn, 3);
  void* const object = testing_support::take(*engine_, *torn, 3);
  thread_cache* const next = torn->next;  // intact, because fork holds the list's lock
  std::memset(static_cast<void*>(torn), 0x5a, sizeof *torn);
  torn->next = next;
  registry_.keep_only(nullptr);
  thread_cache* const cache = registry_.create();
  ASSERT_EQ(cache, torn);
  EXPECT_EQ(cache->cached_bytes(), 0U);
  EXPECT_TRUE(cache->push(engine_->map.find(address_of(object)), object) ||
              cache->free_slow(3, engine_->map.find(address_of(object)), object));
  registry_.destroy(cache);
}

TEST_F(registry_test, threads_come_and_go) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 500; ++i) {
        thread_cache* const cache = registry_.create();
        testing_support::open_class(*engine_, *cache, 3);
        registry_.destroy(cache);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(registry_.count(), 0U);
  EXPECT_LE(resting().size(), 4U);
  registry_.empty_resting(true);
  engine_->central_tier.flush_idle_magazines(true);
  engine_->central_tier.release_spares(true);
  EXPECT_EQ(engine_->heap.stats().in_use, 0U);
}

// Empties the cache as the background thread does.
void empty(thread_cache& cache) {
  cache.claim();
  cache.empty_while_idle();
  cache.end_claim();
}

TEST_F(registry_test, a_sleeping_threads_magazines_are_emptied) {
  thread_cache* const cache = registry_.create();
  std::vector<void*> objects;
  for (const unsigned c : {5U, 20U, 60U}) {
    for (int i = 0; i < 500; ++i) objects.push_back(testing_support::take(*engine_, *cache, c));
  }
  for (void* object : objects) ASSERT_TRUE(testing_support::give(*engine_, *cache, object));
  cache->take_surplus(false);
  ASSERT_GT(cache->cached_bytes(), 30 * kib);
  registry_.empty_idle_caches();
  EXPECT_LE(cache->cached_bytes(), class_info(5).size + class_info(20).size);
  cache->validate();
  engine_->central_tier.flush_idle_magazines(true);
  engine_->central_tier.release_spares(true);
  EXPECT_LE(engine_->heap.stats().in_use, 4 * page_size) << "more than the spans of the remaining objects";
  // The thread goes on with the emptied magazines.
  objects.clear();
  for (const unsigned c : {5U, 20U, 60U}) {
    for (int i = 0; i < 500; ++i) objects.push_back(testing_support::take(*engine_, *cache, c));
  }
  EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), objects.size());
  for (void* object : objects) ASSERT_TRUE(testing_support::give(*engine_, *cache, object));
  cache->validate();
  registry_.destroy(cache);
}

TEST_F(registry_test, a_thread_that_ends_while_its_cache_is_claimed_leaves_it_to_the_claimer) {
  thread_cache* const cache = registry_.create();
  testing_support::open_class(*engine_, *cache, 5);
  cache->claim();
  void* const object = cache->allocate_slow(5);
  EXPECT_NE(object, nullptr) << "a claimed cache must take an object from a span";
  EXPECT_TRUE(cache->free_slow(5, engine_->map.find(address_of(object)), object));
  registry_.destroy(cache);
  EXPECT_EQ(used(), std::vector<thread_cache*>{cache});
  EXPECT_TRUE(cache->ended);
}

TEST_F(registry_test, the_claimer_retires_the_cache_of_a_thread_that_ended_meanwhile) {
  if (TARN_TSAN) GTEST_SKIP() << "ThreadSanitizer does not know what membarrier orders";
  std::atomic<bool> stop{false};
  std::thread claimer([&] {
    while (!stop) registry_.empty_idle_caches();
  });
  int left_to_claimer = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3 * system_probes::slowness());
  while (left_to_claimer < 3 && std::chrono::steady_clock::now() < until) {
    thread_cache* const cache = registry_.create();
    std::vector<void*> objects;
    for (int i = 0; i < 500; ++i) objects.push_back(testing_support::take(*engine_, *cache, 20));
    for (void* object : objects) EXPECT_TRUE(testing_support::give(*engine_, *cache, object));
    cache->take_surplus(false);  // from here on the cache seems idle
    // Waits until the claimer is at work, or has already emptied the cache.
    while (!cache->claimed() && cache->cached_bytes() > 16 * kib &&
           std::chrono::steady_clock::now() < until) {
    }
    registry_.destroy(cache);
    registry_.for_each([&](const thread_cache& each) {
      if (&each == cache && each.ended) ++left_to_claimer;
    });
  }
  stop = true;
  claimer.join();
  EXPECT_TRUE(used().empty()) << "the cache of an ended thread is still in use";
  EXPECT_EQ(registry_.count(), 0U);
  registry_.empty_resting(true);
  engine_->central_tier.flush_idle_magazines(true);
  engine_->central_tier.release_spares(true);
  EXPECT_EQ(engine_->heap.stats().in_use, 0U) << "an object was lost";
  if (left_to_claimer == 0) GTEST_SKIP() << "no thread ended just while its cache was claimed";
}

// Another thread empties the cache all the time while its owner uses it: no object has two owners.
TEST_F(registry_test, what_is_taken_from_a_thread_that_is_awake_is_in_nobody_elses_hands) {
  if (TARN_TSAN) GTEST_SKIP() << "ThreadSanitizer does not know what membarrier orders";
  constexpr unsigned classes[] = {3, 5, 9, 40};
  std::atomic<bool> stop{false};
  std::atomic<bool> broken{false};
  thread_cache* const owners = registry_.create();
  // Takes objects that went back to spans, marks them with 2 and holds them for a while.
  std::thread other([&] {
    std::vector<std::pair<unsigned, void*>> held;
    std::minstd_rand random(2);
    while (!stop) {
      const unsigned c = classes[random() % 4];
      void* const object = engine_->central_tier.take_one(c);
      std::memset(object, 2, class_info(c).size);
      held.emplace_back(c, object);
      if (held.size() < 300) continue;
      for (auto& [held_class, held_object] : held) {
        const auto* const bytes = static_cast<const unsigned char*>(held_object);
        if (bytes[0] != 2 || bytes[class_info(held_class).size - 1] != 2) broken = true;
        free_mark::set(engine_->map, held_class, held_object);
        engine_->central_tier.flush(held_class, &held_object, 1);
      }
      held.clear();
    }
    for (auto& [held_class, held_object] : held) {
      free_mark::set(engine_->map, held_class, held_object);
      engine_->central_tier.flush(held_class, &held_object, 1);
    }
  });
  std::thread taker([&] {
    while (!stop) {
      owners->take_surplus(false);
      empty(*owners);
    }
  });
  sample_windows windows;
  byte_samples profile;
  std::minstd_rand random(1);
  std::vector<std::pair<unsigned, void*>> live;
  for (int step = 0; step < 300000 && !broken; ++step) {
    const unsigned c = classes[random() % 4];
    for (auto n = random() % 5; n != 0; --n) {
      void* object = testing_support::pop(*engine_, *owners, c);
      if (object == nullptr) {
        owners->pick_sample(c, windows, profile);
        object = owners->allocate_slow(c);
      }
      std::memset(object, 1, class_info(c).size);
      live.emplace_back(c, object);
    }
    for (auto n = random() % 5; (n != 0 && !live.empty()) || live.size() > 400; n -= n != 0 ? 1 : 0) {
      std::swap(live[random() % live.size()], live.back());
      const auto [live_class, object] = live.back();
      live.pop_back();
      const auto* const bytes = static_cast<const unsigned char*>(object);
      if (bytes[0] != 1 || bytes[class_info(live_class).size - 1] != 1) broken = true;
      if (!testing_support::give(*engine_, *owners, object)) broken = true;
    }
  }
  stop = true;
  taker.join();
  other.join();
  EXPECT_FALSE(broken);
  for (const auto& [c, object] : live) ASSERT_TRUE(testing_support::give(*engine_, *owners, object));
  owners->validate();
  registry_.destroy(owners);
  registry_.empty_resting(true);
  engine_->central_tier.flush_idle_magazines(true);
  engine_->central_tier.release_spares(true);
  EXPECT_EQ(engine_->heap.stats().in_use, 0U) << "an object was lost";
}

TEST_F(registry_test, finds_a_broken_invariant) {
  thread_cache* const oldest = registry_.create();
  thread_cache* const gone = registry_.create();
  registry_.create();
  registry_.destroy(gone);
  registry_.empty_resting(true);
  registry_.validate_locked();
  thread_cache* const newest = used().front();
  oldest->previous = nullptr;
  EXPECT_BROKEN(registry_.validate_locked(), "thread_cache_registry", "c->previous == last", &registry_);
  oldest->previous = newest;
  engine_->budget.caches.store(3);
  EXPECT_BROKEN(registry_.validate_locked(), "thread_cache_registry", "count() == used", &registry_);
  engine_->budget.caches.store(2);
  gone->ended = true;
  EXPECT_BROKEN(registry_.validate_locked(), "thread_cache_registry", "!c->ended && !c->claimed()",
                &registry_);
  gone->ended = false;
  testing_support::open_class(*engine_, *gone, 5);
  EXPECT_BROKEN(registry_.validate_locked(), "thread_cache_registry", "c->capacity_bytes() == 0", &registry_);
  gone->flush_all();
  registry_.validate_locked();
}

}  // namespace
}  // namespace tarn
