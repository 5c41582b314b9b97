// SPDX-License-Identifier: MIT
#include "os/thread.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "base/compiler.hpp"
#include "os/futex.hpp"

namespace tarn::os {
namespace {

using namespace std::chrono_literals;

std::atomic<int> runs{0};
futex_word go_on{0};

void body() {
  runs.fetch_add(1);
  while (go_on.load() == 0) futex_wait(&go_on, 0);
}

bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

std::set<std::string> tasks() {
  std::set<std::string> out;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return out;
  while (const dirent* entry = readdir(folder)) out.insert(entry->d_name);
  closedir(folder);
  return out;
}

// What follows `field` in the status of the one task that was not there before.
std::string status_of_new_task(const std::set<std::string>& before, const std::string& field) {
  for (const std::string& task : tasks()) {
    if (before.count(task) != 0) continue;
    std::ifstream status("/proc/self/task/" + task + "/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.rfind(field, 0) == 0) return line.substr(field.size());
    }
  }
  return {};
}

TEST(background_thread, runs_and_leaves_its_stack_again_and_again) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "a sanitizer's runtime must know every thread";
  for (int round = 1; round <= 5; ++round) {
    wait_for_background_thread();
    go_on = 0;
    ASSERT_TRUE(start_background_thread(body));
    ASSERT_TRUE(wait_until([round] { return runs == round; }));
    go_on = 1;
    futex_wake(&go_on, 1);
    wait_for_background_thread();
    EXPECT_EQ(runs, round);
  }
}

TEST(background_thread, blocks_every_signal_and_leaves_the_starters_mask_alone) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "a sanitizer's runtime must know every thread";
  wait_for_background_thread();
  go_on = 0;
  const int before = runs;
  sigset_t mask_before;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  const std::set<std::string> tasks_before = tasks();
  ASSERT_TRUE(start_background_thread(body));
  ASSERT_TRUE(wait_until([before] { return runs == before + 1; }));
  sigset_t mask_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&mask_before, signal), sigismember(&mask_after, signal)) << signal;
  }
  const std::string blocked = status_of_new_task(tasks_before, "SigBlk:\t");
  ASSERT_EQ(blocked.size(), 16U) << "there is no new thread";
  // SIGKILL (9) and SIGSTOP (19) cannot be blocked.
  EXPECT_EQ(std::stoull(blocked, nullptr, 16), ~0ULL & ~(1ULL << 8) & ~(1ULL << 18));
  go_on = 1;
  futex_wake(&go_on, 1);
  wait_for_background_thread();
  EXPECT_EQ(tasks(), tasks_before) << "the thread is still there";
}

}  // namespace
}  // namespace tarn::os
