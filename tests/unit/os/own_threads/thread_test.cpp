// SPDX-License-Identifier: MIT
// The background thread: start, end, holds, fork, vfork, scheduling, signal mask and memory.
#include "os/own_threads/thread.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "../../../system_probes.hpp"
#include "base/compiler.hpp"
#include "engine/engine.hpp"
#include "engine/options.hpp"
#include "tarn/malloc.h"

namespace tarn::os {
namespace {

using namespace std::chrono_literals;

bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

std::set<std::string> tasks() {
  std::set<std::string> out;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return out;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') out.insert(entry->d_name);
  }
  closedir(folder);
  return out;
}

// The one task that was not there before; 0 if there is none.
pid_t new_task(const std::set<std::string>& before) {
  for (const std::string& task : tasks()) {
    if (before.count(task) == 0) return static_cast<pid_t>(std::stol(task));
  }
  return 0;
}

// The text after `field` in the status file of a task.
std::string status_of(pid_t task, const std::string& field) {
  std::ifstream status("/proc/self/task/" + std::to_string(task) + "/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(field, 0) == 0) return line.substr(field.size());
  }
  return {};
}

// SIGKILL (9) and SIGSTOP (19) cannot be blocked.
constexpr unsigned long long all_signals = ~0ULL & ~(1ULL << 8) & ~(1ULL << 18);

// The blocked signals that /proc shows for a thread that has blocked all of them by the system call. qemu-user keeps
// some for itself.
unsigned long long all_signals_as_shown() {
  const std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  const std::string shown = status_of(static_cast<pid_t>(syscall(SYS_gettid)), "SigBlk:\t");
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
  return std::stoull("0" + shown, nullptr, 16);
}

// The background thread runs the engine's code. It has a free block to return to the system, which takes two periods of
// half of decay_ms each. Each test begins and ends without a background thread.
class background_thread : public testing::Test {
 protected:
  void SetUp() override {
    if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "a sanitizer's runtime must know every thread";
    ASSERT_EQ(options::set("decay_ms", "60000"), 0);
    before_ = tasks();
    constexpr std::size_t bytes = 512 * 1024;  // too little to start the thread
    void* const block = tarn_malloc(bytes);
    std::memset(block, 1, bytes);
    tarn_free(block);
  }
  void TearDown() override {
    options::set("decay_ms", "-1");
    release_background_thread(hold_background_thread());
    EXPECT_TRUE(wait_until([this] { return TARN_TSAN || TARN_ASAN || tasks() == before_; }));
    options::set("decay_ms", "1000");
    tarn_trim(0);
  }
  [[nodiscard]] pid_t started() const { return new_task(before_); }

  std::set<std::string> before_;
};

TEST_F(background_thread, ends_by_itself_and_starts_again_and_again) {
  ASSERT_EQ(options::set("decay_ms", "20"), 0);
  for (int round = 1; round <= 5; ++round) {
    ASSERT_TRUE(ensure_background_thread());
    EXPECT_NE(started(), 0);
    ASSERT_TRUE(wait_until([this] { return tasks() == before_; })) << round;
  }
}

TEST_F(background_thread, blocks_every_signal_and_leaves_the_starters_mask_alone) {
  sigset_t mask_before;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  ASSERT_TRUE(ensure_background_thread());
  sigset_t mask_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&mask_before, signal), sigismember(&mask_after, signal)) << signal;
  }
  const std::string blocked = status_of(started(), "SigBlk:\t");
  ASSERT_EQ(blocked.size(), 16U) << "there is no new thread";
  if (all_signals_as_shown() != all_signals) GTEST_SKIP() << "/proc does not show all blocked signals";
  EXPECT_EQ(std::stoull(blocked, nullptr, 16), all_signals);
}

TEST_F(background_thread, a_hold_leaves_nothing_of_it_and_a_release_starts_it_again) {
  ASSERT_TRUE(ensure_background_thread());
  for (int round = 0; round < 100; ++round) {
    const hold_token token = hold_background_thread();
    EXPECT_EQ(tasks(), before_);
    EXPECT_FALSE(ensure_background_thread());
    release_background_thread(token);
    EXPECT_NE(started(), 0) << round;
  }
}

TEST_F(background_thread, the_last_of_several_holds_starts_it_again) {
  ASSERT_TRUE(ensure_background_thread());
  const hold_token first = hold_background_thread();
  const hold_token second = hold_background_thread();
  release_background_thread(first);
  EXPECT_EQ(started(), 0);
  release_background_thread(second);
  EXPECT_NE(started(), 0);
}

// As in a signal handler that has interrupted the section of a lock, while the background thread waits for that lock.
TEST_F(background_thread, a_hold_above_a_section_does_not_wait_for_ever) {
  ASSERT_EQ(options::set("decay_ms", "20"), 0);
  engine::heap.lock().lock();
  ASSERT_TRUE(ensure_background_thread());
  std::this_thread::sleep_for(100ms);  // some periods: the background thread waits for the lock
  const auto before = std::chrono::steady_clock::now();
  const hold_token token = hold_background_thread();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  engine::heap.lock().unlock();
  EXPECT_TRUE(wait_until([this] { return tasks() == before_; })) << "it must end when it gets the lock";
  release_background_thread(token);
}

// If a hold has given up before the background thread has ended, the thread must still end later, so that it does not
// run with the old rights.
TEST_F(background_thread, ends_after_a_hold_that_has_given_up_and_was_released) {
  ASSERT_EQ(options::set("decay_ms", "20"), 0);
  engine::heap.lock().lock();
  ASSERT_TRUE(ensure_background_thread());
  std::this_thread::sleep_for(100ms);  // some periods: the background thread waits for the lock
  // In another thread, because the lock of the options must be taken before the heap's.
  std::thread([] { EXPECT_EQ(options::set("decay_ms", "60000"), 0); }).join();
  release_background_thread(hold_background_thread());
  EXPECT_NE(tasks(), before_);
  engine::heap.lock().unlock();
  EXPECT_TRUE(wait_until([this] { return tasks() == before_; })) << "it still runs, with the old rights";
}

// As in a fork handler of another library that runs while fork holds the locks.
TEST_F(background_thread, a_hold_inside_fork_does_not_wait_for_ever) {
  ASSERT_EQ(options::set("decay_ms", "20"), 0);
  ASSERT_TRUE(ensure_background_thread());
  engine::before_copy();
  std::this_thread::sleep_for(100ms);
  const auto before = std::chrono::steady_clock::now();
  const hold_token token = hold_background_thread();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  engine::after_copy_in_parent();
  EXPECT_TRUE(wait_until([this] { return tasks() == before_; }));
  release_background_thread(token);
}

TEST_F(background_thread, a_hold_without_a_thread_starts_none) {
  release_background_thread(hold_background_thread());
  EXPECT_EQ(started(), 0);
}

// As after _Fork or the bare system call, when no fork handler runs: the child has no background thread, and its
// parent's hold does not count.
TEST_F(background_thread, a_child_that_no_handler_knows_of_starts_its_own) {
  if (!system_probes::children_find_wiped_memory()) GTEST_SKIP() << system_probes::no_wiping;
  ASSERT_TRUE(ensure_background_thread());
  const hold_token token = hold_background_thread();
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) {
    release_background_thread(token);  // without effect in the child
    const bool none = tasks().size() == 1;
    const bool started = ensure_background_thread() && tasks().size() == 2;
    release_background_thread(hold_background_thread());
    _exit(none && started && tasks().size() == 2 ? 0 : 1);
  }
  release_background_thread(token);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A background thread of a vfork child would die with the child, perhaps while it holds a lock that the parent shares.
TEST_F(background_thread, a_vfork_child_starts_none) {
  if (!system_probes::vfork_shares_memory()) GTEST_SKIP() << system_probes::no_vfork;
  ASSERT_TRUE(ensure_background_thread());  // stores the process id
  const hold_token token = hold_background_thread();
  const pid_t child = vfork();
  if (child == 0) {
    release_background_thread(token);
    _exit(ensure_background_thread() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(ensure_background_thread());
}

TEST_F(background_thread, has_the_scheduling_of_load_time_whoever_starts_it) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  bool is_real_time = false;
  long starter = 0;
  std::thread([&] {
    starter = syscall(SYS_gettid);
    sched_setaffinity(0, sizeof one, &one);
    const sched_param priority{1};
    is_real_time = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
    ASSERT_TRUE(ensure_background_thread());
  }).join();
  await_end_of_thread(starter);  // join() returns a little before the kernel removes the task
  const pid_t thread = started();
  ASSERT_NE(thread, 0);
  if (is_real_time) {
    EXPECT_EQ(sched_getscheduler(thread), SCHED_OTHER);
  }
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(thread)), getpriority(PRIO_PROCESS, 0));
  cpu_set_t its;
  ASSERT_EQ(sched_getaffinity(thread, sizeof its, &its), 0);
  EXPECT_TRUE(CPU_EQUAL(&its, &all));
}

// The stack and the control page each lie between inaccessible pages.
TEST_F(background_thread, its_memory_lies_between_guards) {
  ASSERT_TRUE(ensure_background_thread());
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::string rights;  // the rights of the last adjacent mappings: r, w or -, one character each
  std::uintptr_t end = 0;
  bool found = false;
  while (std::getline(maps, line)) {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    char protection[5] = {};
    ASSERT_EQ(std::sscanf(line.c_str(), "%lx-%lx %4s", &first, &last, protection), 3);
    if (first != end) rights.clear();
    end = last;
    rights += protection[1] == 'w' ? 'w' : (protection[0] == 'r' ? 'r' : '-');
    found = found || (rights.size() >= 5 && rights.compare(rights.size() - 5, 5, "-w-w-") == 0);
  }
  EXPECT_TRUE(found);
}

// Otherwise it would have the lock again before the thread that it has woken runs.
TEST_F(background_thread, gives_way_after_a_section_that_another_one_slept_for) {
  has_woken_waiter = true;
  const auto start = std::chrono::steady_clock::now();
  background_thread_must_end();
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50us);
  EXPECT_FALSE(has_woken_waiter);
}

}  // namespace
}  // namespace tarn::os
