// SPDX-License-Identifier: MIT
// restartable: the three sequences, alone and against other threads of the same processor; a thread whose sequences never
// end.
#include "os/restartable.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "os/memory.hpp"

namespace tarn {
namespace {

using namespace os;

constexpr std::size_t word_index = 3;

class restartable_test : public testing::Test {
 protected:
  void SetUp() override {
    if (!restartable::usable()) GTEST_SKIP() << "no restartable sequences";
    bases_ = std::make_unique<std::uintptr_t*[]>(restartable::most_processors);
    set_base(words_);
    fill(3);
  }
  void set_base(std::uintptr_t* words) {
    for (unsigned p = 0; p < restartable::most_processors; ++p) bases_[p] = words;
  }
  // The array with objects 1 to `count`.
  void fill(std::size_t count) {
    slots_[0] = nullptr;
    for (std::size_t i = 1; i <= count; ++i) slots_[i] = object(i);
    slots_[capacity + 1] = reinterpret_cast<void*>(restartable::end_mark);
    words_[word_index] = reinterpret_cast<std::uintptr_t>(slots_ + 1 + count);
  }
  static void* object(std::size_t number) { return reinterpret_cast<void*>(16 * number); }
  restartable::bases all() { return bases_.get(); }

  static constexpr std::size_t capacity = 4;
  std::unique_ptr<std::uintptr_t*[]> bases_;
  std::uintptr_t words_[8] = {};
  void* slots_[capacity + 2] = {};
};

TEST_F(restartable_test, pops_the_topmost_object_until_there_is_none) {
  for (const std::size_t number : {3, 2, 1}) EXPECT_EQ(restartable::pop(all(), word_index), object(number));
  EXPECT_EQ(restartable::pop(all(), word_index), nullptr);
  EXPECT_EQ(words_[word_index], reinterpret_cast<std::uintptr_t>(slots_ + 1));
}

TEST_F(restartable_test, pushes_until_the_end_mark) {
  EXPECT_TRUE(restartable::push(all(), word_index, object(4)));
  EXPECT_FALSE(restartable::push(all(), word_index, object(5)));
  EXPECT_EQ(slots_[4], object(4));
  EXPECT_EQ(words_[word_index], reinterpret_cast<std::uintptr_t>(slots_ + 5));
  EXPECT_EQ(restartable::pop(all(), word_index), object(4));
}

TEST_F(restartable_test, exchanges_the_word_unless_it_has_the_value) {
  void* other[2] = {};
  const auto first = restartable::exchange(all(), word_index, other + 1);
  EXPECT_EQ(first.top, slots_ + 4);
  EXPECT_EQ(first.words, words_);
  EXPECT_EQ(words_[word_index], reinterpret_cast<std::uintptr_t>(other + 1));
  EXPECT_EQ(restartable::exchange(all(), word_index, other + 1).top, other + 1);
}

// Another thread may be storing it.
TEST_F(restartable_test, a_word_that_has_the_value_is_not_stored) {
  const std::size_t bytes = system_page_size();
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const words = static_cast<std::uintptr_t*>(page);
  words[word_index] = reinterpret_cast<std::uintptr_t>(slots_);
  ASSERT_EQ(mprotect(page, bytes, PROT_READ), 0);
  set_base(words);
  EXPECT_EQ(restartable::exchange(all(), word_index, slots_).top, slots_);
  munmap(page, bytes);
}

TEST_F(restartable_test, fails_for_a_processor_without_words) {
  set_base(nullptr);
  EXPECT_EQ(restartable::pop(all(), word_index), nullptr);
  EXPECT_FALSE(restartable::push(all(), word_index, object(4)));
  EXPECT_EQ(restartable::exchange(all(), word_index, slots_).top, nullptr);
}

TEST_F(restartable_test, the_processor_is_the_one_on_which_the_thread_runs) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  for (unsigned p = 0; p < CPU_SETSIZE; ++p) {
    if (!CPU_ISSET(p, &before)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(p, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(restartable::processor(), p);
  }
  sched_setaffinity(0, sizeof before, &before);
}

// Threads of one processor; each object has one owner at a time, and none is lost.
TEST_F(restartable_test, other_threads_of_the_processor_see_a_sequence_as_one_step) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(restartable::processor(), &one);
  std::atomic<int> owners[capacity] = {};
  std::atomic<int> shared{0};
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      sched_setaffinity(0, sizeof one, &one);
      while (!ends.load(std::memory_order_relaxed)) {
        void* const got = restartable::pop(all(), word_index);
        if (got == nullptr) continue;
        std::atomic<int>& mine = owners[reinterpret_cast<std::uintptr_t>(got) / 16];
        if (mine.fetch_add(1) != 0) ++shared;
        mine.fetch_sub(1);
        if (!restartable::push(all(), word_index, got)) ++shared;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ends.store(true);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(shared.load(), 0);
  EXPECT_EQ(words_[word_index], reinterpret_cast<std::uintptr_t>(slots_ + 4));
}

// Every step of the child is interrupted by a signal to its tracer, so no sequence ever ends.
TEST_F(restartable_test, a_thread_that_is_traced_step_by_step_gives_up) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME) != 0) _exit(77);
    raise(SIGSTOP);
    const bool gave_up = restartable::pop(all(), word_index) == nullptr &&
                         !restartable::push(all(), word_index, object(4)) &&
                         restartable::exchange(all(), word_index, slots_).top == nullptr;
    _exit(gave_up && words_[word_index] == reinterpret_cast<std::uintptr_t>(slots_ + 4) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  for (int steps = 0; WIFSTOPPED(status) && steps < 1'000'000; ++steps) {
    ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, 0, 0), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
  }
  if (WIFSTOPPED(status)) kill(child, SIGKILL);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "ptrace is not allowed";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tarn
