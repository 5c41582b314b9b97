// SPDX-License-Identifier: MIT
// remote_thread: functions called in a child, and that the child goes on as if nothing had happened, also if a function
// crashes, a signal arrives, or the child is stopped or ends.
#include "profiler/attach/remote_thread.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/profiler/attach/calling_thread.hpp"

namespace tarn::profiler {
namespace {

std::uint64_t digits(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d, std::uint64_t e,
                     std::uint64_t f) {
  return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}

TEST_F(remote_thread_test, a_function_gets_its_arguments_and_its_result_comes_back) {
  const child_process child(do_rounds);
  calling_thread thread(child.id());
  EXPECT_EQ(thread.call(address(&digits), {1, 2, 3, 4, 5, 6}), 654321U);
  EXPECT_EQ(thread.call(address(&getppid), {}), static_cast<std::uint64_t>(getpid()));
  EXPECT_EQ(thread.call(address(&digits), {7, 0, 0, 0, 0, 8}), 800007U) << "a second call";
  EXPECT_TRUE(thread.let_go());
  EXPECT_GT(thread.stopped_seconds(), 0);
  EXPECT_TRUE(child.goes_on());
}

bool is_aligned_between(std::uintptr_t low, std::uintptr_t high) {
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return frame % 16 == 0 && frame > low && frame < high;
}

TEST_F(remote_thread_test, a_function_runs_on_a_stack_of_its_own) {
  const child_process child(do_rounds);
  calling_thread thread(child.id());
  const std::uint64_t low = thread.room() + remote_thread::room_bytes;
  EXPECT_EQ(thread.call(address(&is_aligned_between), {low, low + (200 << 10)}) & 1, 0U)
      << "at its lower end";
  EXPECT_EQ(thread.call(address(&is_aligned_between), {low + (200 << 10), low + (256 << 10)}) & 1, 1U);
}

TEST_F(remote_thread_test, all_registers_are_as_before) {
  child_process child(watch_registers);
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(child.goes_on());  // so that it is stopped while it computes
    calling_thread thread(child.id());
    thread.call(address(&overwrite_registers), {});
    EXPECT_TRUE(thread.let_go());
  }
  EXPECT_TRUE(child.goes_on());
  EXPECT_FALSE(child.shared().wrong.load());
}

TEST_F(remote_thread_test, an_interrupted_system_call_goes_on) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  child_process child([&](shared_state&) {
    char letter = 0;
    if (read(ends[0], &letter, 1) != 1 || letter != 'x') _exit(1);
  });
  ASSERT_TRUE(child.comes_to('S'));
  for (int round = 0; round < 3; ++round) {
    calling_thread thread(child.id());
    EXPECT_EQ(thread.call(address(&getppid), {}), static_cast<std::uint64_t>(getpid()));
  }  // its end lets the thread go, too
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(child.wait_for_end(), 0);
  for (const int end : ends) close(end);
}

void count_signals(shared_state& shared) {
  signals_go_to = &shared;
  signal(SIGUSR1, [](int) { signals_go_to->signals.fetch_add(1); });
  do_rounds(shared);
}

unsigned send_and_look() {
  kill(getpid(), SIGUSR1);
  return signals_go_to->signals.load();
}

TEST_F(remote_thread_test, a_signal_during_a_call_is_handled_after_it) {
  child_process child(count_signals);
  ASSERT_TRUE(child.goes_on());
  {
    calling_thread thread(child.id());
    EXPECT_EQ(static_cast<unsigned>(thread.call(address(&send_and_look), {})), 0U);
  }
  EXPECT_TRUE(child.goes_on());
  EXPECT_EQ(child.shared().signals.load(), 1U);
}

TEST_F(remote_thread_test, a_signal_before_the_stop_is_not_lost) {
  child_process child(count_signals);
  ASSERT_TRUE(child.goes_on());
  for (unsigned round = 1; round <= 50; ++round) {
    {
      remote_thread thread(child.id(), child.id());
      kill(child.id(), SIGUSR1);
      ASSERT_TRUE(thread.stop(long_enough));
      thread.begin_calls(calling_thread::code());
      thread.call(address(&getppid), {});
    }
    ASSERT_TRUE(child.goes_on());
    ASSERT_EQ(child.shared().signals.load(), round);
  }
}

void crash() { *reinterpret_cast<volatile int*>(64) = 1; }
void trap() { __builtin_trap(); }

TEST_F(remote_thread_test, a_function_that_crashes_is_an_error_and_the_child_goes_on) {
  const child_process child(do_rounds);
  for (void (*const function)() : {&crash, &trap}) {
    calling_thread thread(child.id());
    try {
      thread.call(address(function), {});
      ADD_FAILURE() << "no error";
    } catch (const process_gone&) {
      ADD_FAILURE() << "the child has ended";
    } catch (const attach_error& error) {
      EXPECT_NE(std::string(error.what()).find("was ended by"), std::string::npos) << error.what();
    }
    EXPECT_EQ(thread.call(address(&digits), {5, 0, 0, 0, 0, 0}), 5U) << "later calls work";
    EXPECT_TRUE(thread.let_go());
    EXPECT_TRUE(child.goes_on());
  }
}

TEST_F(remote_thread_test, a_child_that_ends_is_gone) {
  child_process child(do_rounds);
  calling_thread thread(child.id());
  EXPECT_THROW(thread.call(address(&_exit), {3}), process_gone);
  EXPECT_TRUE(thread.let_go());
  const int status = child.wait_for_end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

TEST_F(remote_thread_test, a_killed_child_is_gone) {
  child_process child(do_rounds);
  remote_thread thread(child.id(), child.id());
  kill(child.id(), SIGKILL);
  child.comes_to('Z');
  EXPECT_THROW(thread.stop(long_enough), process_gone);
  EXPECT_TRUE(thread.let_go());
  EXPECT_TRUE(WIFSIGNALED(child.wait_for_end()));
}

TEST_F(remote_thread_test, a_stopped_child_stays_stopped) {
  child_process child(do_rounds);
  ASSERT_TRUE(child.goes_on());
  kill(child.id(), SIGSTOP);
  ASSERT_TRUE(child.comes_to('T'));
  {
    calling_thread thread(child.id());
    EXPECT_EQ(thread.call(address(&digits), {5, 0, 0, 0, 0, 0}), 5U);
  }
  EXPECT_TRUE(child.comes_to('T'));
  const unsigned rounds = child.shared().rounds.load();
  usleep(50'000);
  EXPECT_EQ(child.shared().rounds.load(), rounds);
  kill(child.id(), SIGCONT);
  EXPECT_TRUE(child.goes_on());
}

TEST_F(remote_thread_test, what_cannot_be_traced_is_said) {
  EXPECT_THROW(remote_thread(0x7ffffffe, 0x7ffffffe), process_gone);
  const child_process child(do_rounds);
  const remote_thread first(child.id(), child.id());
  try {
    const remote_thread second(child.id(), child.id());
    ADD_FAILURE() << "a thread has one tracer";
  } catch (const process_gone&) {
    ADD_FAILURE() << "it is there";
  } catch (const attach_error& error) {
    EXPECT_FALSE(error.advice().empty());
  }
}

}  // namespace
}  // namespace tarn::profiler
