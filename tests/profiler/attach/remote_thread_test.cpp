// SPDX-License-Identifier: MIT
// remote_thread: functions called in a child, and that the child goes on as if nothing had happened, also if a function
// crashes, a signal arrives, or the child is stopped or ends.
#include "profiler/attach/remote_thread.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "profiler/attach/safe_point.hpp"
#include "tests/profiler/attach/child_process.hpp"

namespace tarn::profiler {
namespace {

using shared_state = child_process::shared_state;

constexpr double long_enough = 10;

std::uint64_t address(auto* function) { return reinterpret_cast<std::uint64_t>(function); }

// A thread of a child that is stopped and can make calls; its end lets it go.
class calling_thread : public remote_thread {
 public:
  explicit calling_thread(pid_t process, call_limits limits = {}) : remote_thread(process, process) {
    if (!stop(long_enough)) throw std::runtime_error("it does not stop");
    begin_calls(code(), std::move(limits));
  }
  static const libc_code& code() {
    static const libc_code found = [] {
      for (const remote_module& one : modules_of_process(getpid()))
        if (is_libc(one)) return find_libc_code(getpid(), one);
      return libc_code();
    }();
    return found;
  }
};

class remote_thread_test : public testing::Test {
 protected:
  void SetUp() override {
    if (ptrace_is_refused()) GTEST_SKIP() << "ptrace is refused";
  }
};

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

void overwrite_registers() {
  errno = EXDEV;
#if defined(__x86_64__)
  asm volatile(
      "pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n pcmpeqd %%xmm2, %%xmm2\n pcmpeqd %%xmm15, %%xmm15\n"
      "mov $-1, %%rcx\n mov $-1, %%r11" ::
          : "xmm0", "xmm1", "xmm2", "xmm15", "rcx", "r11");
#endif
}

// Computes in registers that functions may overwrite, and looks whether anything does.
void watch_registers(shared_state& shared) {
  for (;; shared.rounds.fetch_add(1)) {
    double value = 1.5;
    std::uint64_t number = 77;
#if defined(__x86_64__)
    asm volatile(
        "movsd %0, %%xmm1\n mov %1, %%r11\n mov $10000, %%rcx\n"
        "1: dec %%rcx\n jnz 1b\n"
        "movsd %%xmm1, %0\n mov %%r11, %1"
        : "+m"(value), "+m"(number)
        :
        : "xmm1", "r11", "rcx");
#endif
    if (value != 1.5 || number != 77) shared.wrong.store(true);
  }
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

shared_state* signals_go_to;

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

// The tracer is killed while the thread is within a call: another process, which attaches to the child.
template <class Work>
void attach_and_be_killed(pid_t child, const Work& work) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t tracer = fork();
  if (tracer == 0) {
    calling_thread thread(child);
    work(thread, [&ends] {
      const ssize_t told = write(ends[1], "x", 1);
      if (told == 1) pause();
    });
    _exit(0);
  }
  char letter = 0;
  ASSERT_EQ(read(ends[0], &letter, 1), 1);
  kill(tracer, SIGKILL);
  waitpid(tracer, nullptr, 0);
  for (const int end : ends) close(end);
}

void overwrite_and_wait() {
  overwrite_registers();
  timespec time = {0, 100'000'000};
  nanosleep(&time, nullptr);
}

TEST_F(remote_thread_test, the_thread_goes_on_by_itself_if_its_tracer_is_killed) {
  child_process child(watch_registers);
  for (const bool within_the_call : {true, false}) {
    ASSERT_TRUE(child.goes_on());
    attach_and_be_killed(child.id(), [&](calling_thread& thread, const auto& is_ready) {
      if (!within_the_call) {
        thread.call(address(&overwrite_registers), {});
        is_ready();
      }
      if (fork() == 0) {  // tells it while this process waits for the call
        usleep(20'000);
        is_ready();
      }
      thread.call(address(&overwrite_and_wait), {});
    });
    EXPECT_TRUE(child.goes_on()) << within_the_call;
    EXPECT_FALSE(child.shared().wrong.load()) << "registers";
    EXPECT_FALSE(child.has_ended());
  }
  remote_thread again(child.id(), child.id());
  EXPECT_TRUE(again.stop(long_enough));
}

TEST_F(remote_thread_test, a_sleep_and_the_signal_mask_outlive_a_killed_tracer) {
  child_process child([](shared_state& shared) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_BLOCK, &mask, nullptr);
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    pollfd none = {ends[0], POLLIN, 0};
    for (;;) {
      errno = 7;
      if (poll(&none, 1, 50) != 0 || errno != 7) shared.wrong.store(true);
      sigset_t now;
      sigprocmask(SIG_BLOCK, nullptr, &now);
      for (int one = 1; one < 32; ++one)
        if (sigismember(&now, one) != (one == SIGUSR2 ? 1 : 0)) shared.wrong.store(true);
      shared.rounds.fetch_add(1);
    }
  });
  ASSERT_TRUE(child.goes_on());
  attach_and_be_killed(child.id(), [&](calling_thread& thread, const auto& is_ready) {
    thread.keep_errno(thread.call(address(&__errno_location), {}));
    thread.call(address(&overwrite_registers), {});
    is_ready();
  });
  EXPECT_TRUE(child.goes_on());
  EXPECT_FALSE(child.shared().wrong.load());
}

void never_return() {
  for (;;) pause();
}

void return_late() { usleep(700'000); }

TEST_F(remote_thread_test, a_call_that_does_not_return_in_time_is_left_and_the_thread_goes_on_after_it) {
  child_process child(do_rounds);
  call_limits limits;
  limits.seconds = 0.1;
  {
    calling_thread thread(child.id(), limits);
    EXPECT_THROW(thread.call(address(&return_late), {}), attach_error);
  }
  EXPECT_TRUE(child.goes_on());
  limits.seconds = long_enough;
  limits.go_on = [] { return false; };
  {
    calling_thread thread(child.id(), limits);
    EXPECT_THROW(thread.call(address(&never_return), {}), attach_error)
        << "someone wants this process to end";
  }
  EXPECT_FALSE(child.has_ended());
}

pthread_mutex_t held_by_another;

TEST_F(remote_thread_test, a_call_that_waits_for_the_linkers_lock_is_taken_back) {
  const child_process child([](shared_state& shared) {
    pthread_mutex_init(&held_by_another, nullptr);
    std::thread holder([] {
      pthread_mutex_lock(&held_by_another);
      for (;;) pause();
    });
    do_rounds(shared);
  });
  ASSERT_TRUE(child.goes_on());
  call_limits limits;
  limits.lock = address(&held_by_another);
  {
    calling_thread thread(child.id(), limits);
    EXPECT_THROW(thread.call(address(&pthread_mutex_lock), {limits.lock}), call_taken_back);
  }
  EXPECT_TRUE(child.goes_on());
}

#if defined(__x86_64__)
TEST_F(remote_thread_test, system_calls_that_a_stop_ends_with_eintr_are_made_again) {
  enum kinds { epoll, semaphore, signals };
  for (const kinds kind : {epoll, semaphore, signals}) {
    child_process child([kind](shared_state& shared) {
      const int poller = epoll_create1(0);
      const int set = semget(IPC_PRIVATE, 1, 0600);
      for (;; shared.rounds.fetch_add(1)) {
        epoll_event event = {};
        sembuf take = {0, -1, 0};
        const timespec time = {0, 200'000'000};
        sigset_t mask;
        sigemptyset(&mask);
        sigaddset(&mask, SIGUSR2);
        int result = 0;
        if (kind == epoll) result = epoll_wait(poller, &event, 1, 200);
        if (kind == semaphore) result = semtimedop(set, &take, 1, &time);
        if (kind == signals) result = sigtimedwait(&mask, nullptr, &time);
        if (result < 0 && errno == EINTR) shared.wrong.store(true);
        if (shared.signals.load() != 0) {
          semctl(set, 0, IPC_RMID);
          _exit(0);
        }
      }
    });
    ASSERT_TRUE(child.comes_to('S'));
    for (int round = 0; round < 3; ++round) {
      calling_thread thread(child.id());
      thread.call(address(&getppid), {});
    }
    child.shared().signals.store(1);
    child.wait_for_end();
    EXPECT_FALSE(child.shared().wrong.load()) << kind;
  }
}

// A signal that the program handles must end the call: it may have been sent for that.
TEST_F(remote_thread_test, a_signal_that_the_program_handles_still_ends_its_system_call) {
  child_process child([](shared_state& shared) {
    signals_go_to = &shared;
    struct sigaction action = {};
    action.sa_handler = [](int) { signals_go_to->signals.fetch_add(1); };
    sigaction(SIGUSR1, &action, nullptr);
    epoll_event event = {};
    const int result = epoll_wait(epoll_create1(0), &event, 1, 50'000);
    _exit(result < 0 && errno == EINTR && shared.signals.load() == 1 ? 0 : 1);
  });
  ASSERT_TRUE(child.comes_to('S'));
  {
    calling_thread thread(child.id());
    kill(child.id(), SIGUSR1);
    thread.call(address(&getppid), {});
  }
  EXPECT_EQ(child.wait_for_end(), 0);
}
#endif

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
