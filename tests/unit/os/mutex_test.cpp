// SPDX-License-Identifier: MIT
// mutex: exclusion, sleeping, and how fork takes locks that other threads or its own thread hold.
#include "os/mutex.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "../../child_status.hpp"
#include "broken_invariant.hpp"

namespace tarn::os {
namespace {

using namespace std::chrono_literals;

TEST(mutex, is_eight_bytes_and_a_rank) { EXPECT_LE(sizeof(mutex), TARN_CHECKS ? 16U : 8U); }

TEST(mutex, excludes) {
  mutex m{lock_rank::depot};
  // Not atomic: only the lock keeps increments from being lost.
  std::uint64_t counter = 0;
  constexpr std::uint64_t rounds = 20000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < rounds; ++i) {
        lock_guard guard(m);
        ++counter;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counter, 4 * rounds);
}

TEST(mutex, who_waits_long_sleeps_and_is_woken) {
  mutex m{lock_rank::depot};
  std::atomic<int> through{0};
  std::vector<std::thread> threads;
  m.lock();
  timespec used_before{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used_before);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      lock_guard guard(m);
      through.fetch_add(1);
    });
  }
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(through.load(), 0);
  timespec used_after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used_after);
  m.unlock();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(through.load(), 3);
  const double used = static_cast<double>(used_after.tv_sec - used_before.tv_sec) +
                      static_cast<double>(used_after.tv_nsec - used_before.tv_nsec) * 1e-9;
  EXPECT_LT(used, 0.2) << "three threads that wait 0.3 s must sleep, not spin";
}

// The background thread gives way then (os/own_threads/thread.hpp).
TEST(mutex, who_releases_a_lock_that_another_one_slept_for_is_told) {
  mutex m{lock_rank::depot};
  has_woken_waiter = false;
  m.lock();
  m.unlock();
  EXPECT_FALSE(has_woken_waiter);
  m.lock();
  std::thread other([&m] { lock_guard guard(m); });
  const auto& word = reinterpret_cast<const std::atomic<std::uintptr_t>&>(m);
  while ((word & 1) == 0) std::this_thread::sleep_for(1ms);  // until it is about to sleep
  m.unlock();
  EXPECT_TRUE(has_woken_waiter);
  other.join();
  has_woken_waiter = false;
}

// Runs `body` while another thread holds the mutex.
template <class Body>
void beside_a_holder(mutex& m, Body body) {
  std::atomic<bool> held{false};
  std::atomic<bool> done{false};
  std::thread holder([&] {
    lock_guard guard(m);
    held = true;
    while (!done) std::this_thread::sleep_for(1ms);
  });
  while (!held) std::this_thread::sleep_for(1ms);
  body();
  done = true;
  holder.join();
}

TEST(mutex, a_forked_child_drops_a_holder_that_it_has_not_got) {
  mutex m{lock_rank::metadata};
  beside_a_holder(m, [&m] {
    const int status = testing_support::child_status([&m] {
      m.drop_foreign_holder();
      m.lock();
      m.unlock();
      return 7;
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  });
}

mutex interrupted{lock_rank::depot};

bool never() { return false; }
bool if_interrupted() { return interrupted.is_interrupted_and_marked(); }

TEST(mutex, the_thread_that_forks_may_lock_again_what_fork_holds) {
  mutex m{lock_rank::metadata};
  m.take_for_fork(never);
  EXPECT_FALSE(m.is_interrupted());
  std::atomic<bool> entered{false};
  std::thread other([&] {
    lock_guard guard(m);
    entered = true;
  });
  for (int i = 0; i < 2; ++i) {
    lock_guard guard(m);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_FALSE(entered) << "the inner section has released fork's lock";
  m.release_for_fork();
  other.join();
  EXPECT_TRUE(entered);
}

TEST(mutex, fork_leaves_what_its_thread_held_before) {
  mutex m{lock_rank::metadata};
  m.lock();
  m.take_for_fork(never);
  EXPECT_TRUE(m.is_interrupted());
  m.drop_foreign_holder();
  m.release_for_fork();
  EXPECT_TRUE(m.is_interrupted()) << "fork has released the lock of the interrupted section";
  m.unlock();
  EXPECT_FALSE(m.is_interrupted());
}

TEST(mutex, fork_gives_up_only_if_it_may) {
  mutex m{lock_rank::metadata};
  beside_a_holder(m, [&m] {
    lock_guard guard(interrupted);
    m.take_for_fork(if_interrupted);
    m.release_for_fork();  // without effect: the lock was not taken
    EXPECT_FALSE(m.is_interrupted());
  });
  m.lock();
  m.unlock();
}

// A handler that forks and runs again at once would stop the program if each fork waited for each lock.
TEST(mutex, fork_waits_once_for_each_section_that_it_interrupts) {
  mutex held{lock_rank::metadata};
  const auto fork_ms = [&held] {
    const auto start = std::chrono::steady_clock::now();
    for (int lock = 0; lock < 10; ++lock) held.take_for_fork(if_interrupted);
    return (std::chrono::steady_clock::now() - start) / 1ms;
  };
  beside_a_holder(held, [&] {
    for (int section = 0; section < 2; ++section) {
      lock_guard guard(interrupted);
      EXPECT_GE(fork_ms(), 40) << "fork did not give the holder time to release the lock";
      long others_ms = 0;
      for (int fork = 0; fork < 10; ++fork) others_ms += fork_ms();
      EXPECT_LT(others_ms, 1000) << "for 100 locks";
    }
  });
}

// The holder that fork has waited for may release the lock at the last moment.
TEST(mutex, fork_does_not_go_on_without_a_lock_that_is_free_or_has_another_holder) {
  for (const bool taken_by_another : {false, true}) {
    mutex m{lock_rank::metadata};
    std::atomic<int> step{0};
    const auto await = [&step](int wanted) {
      while (step != wanted) std::this_thread::yield();
    };
    std::thread first([&] {
      m.lock();
      step = 1;
      await(2);
      m.unlock();
      step = 3;
    });
    std::thread second([&] {
      await(3);
      if (taken_by_another) m.lock();
      step = 4;
      await(5);
      if (taken_by_another) m.unlock();
    });
    await(1);
    int asked = 0;
    m.take_for_fork([&] {
      if (asked++ == 0) {
        step = 2;
        await(4);
      } else {
        step = 5;  // fork waits for the second holder, too, and asks again
      }
      return true;
    });
    EXPECT_EQ(asked, taken_by_another ? 2 : 1);
    EXPECT_TRUE(taken_by_another || m.is_held_by_fork());
    m.release_for_fork();
    step = 5;
    first.join();
    second.join();
  }
}

// One holder may wait for the interrupted section, while the holder of another lock changes its structure. Fork must
// wait for the latter.
TEST(mutex, fork_waits_for_a_busy_holder_though_it_has_given_up_another_lock) {
  mutex held{lock_rank::page_heap};
  mutex busy{lock_rank::metadata};
  std::atomic<bool> done{false};
  // Data guarded by `busy`: the two are equal whenever the lock is free.
  std::atomic<std::uint64_t> first{0};
  std::atomic<std::uint64_t> second{0};
  std::thread changing([&] {
    while (!done) {
      lock_guard guard(busy);
      first.fetch_add(1);
      std::this_thread::sleep_for(100us);
      second.fetch_add(1);
    }
  });
  while (second == 0) std::this_thread::sleep_for(1ms);
  beside_a_holder(held, [&] {
    lock_guard guard(interrupted);
    int torn = 0;
    for (int fork = 0; fork < 20; ++fork) {
      held.take_for_fork(if_interrupted);
      busy.take_for_fork(if_interrupted);
      if (first != second) ++torn;
      busy.release_for_fork();
      // The next fork meets another section of the other thread: on a busy machine that thread may lose its processor
      // in one section for longer than fork waits.
      const std::uint64_t sections = second;
      while (second <= sections) std::this_thread::sleep_for(100us);
    }
    EXPECT_LT(torn, 10) << "of 20 forks would copy inconsistent data";
  });
  done = true;
  changing.join();
}

TEST(mutex, finds_a_broken_invariant) {
  plain_mutex m;
  m.validate();
  auto& word = reinterpret_cast<std::atomic<std::uintptr_t>&>(m);
  word = 1;
  EXPECT_BROKEN(m.validate(), "mutex", "word == 0 || (word & ~flags) != 0", &m);
  word = 16 + 4;
  EXPECT_BROKEN(m.validate(), "mutex", "(word & nested) == 0 || (word & forking) != 0", &m);
}

}  // namespace
}  // namespace tarn::os
