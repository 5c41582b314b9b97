// SPDX-License-Identifier: MIT
// remote_thread: what becomes of the thread if its tracer is killed or gives up, and of its system calls.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <thread>

#include "tests/profiler/attach/calling_thread.hpp"

namespace tarn::profiler {
namespace {

using left_thread_test = remote_thread_test;

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
      if (told == 1) sleep(2);  // killed meanwhile, except for the process that only tells
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

TEST_F(left_thread_test, the_thread_goes_on_by_itself_if_its_tracer_is_killed) {
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
        _exit(0);
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

TEST_F(left_thread_test, a_sleep_and_the_signal_mask_outlive_a_killed_tracer) {
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

TEST_F(left_thread_test, a_call_that_does_not_return_in_time_is_left_and_the_thread_goes_on_after_it) {
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

TEST_F(left_thread_test, a_call_that_waits_for_the_linkers_lock_is_taken_back) {
  const child_process child([](shared_state& shared) {
    pthread_mutex_init(&held_by_another, nullptr);
    std::atomic<bool> is_held{false};
    std::thread holder([&is_held] {
      pthread_mutex_lock(&held_by_another);
      is_held = true;
      for (;;) pause();
    });
    while (!is_held) std::this_thread::yield();
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
TEST_F(left_thread_test, system_calls_that_a_stop_ends_with_eintr_are_made_again) {
  enum kinds { epoll, semaphore, signals, receives, reads, sends, writes, splices };
  for (const kinds kind : {epoll, semaphore, signals, receives, reads, sends, writes, splices}) {
    child_process child([kind](shared_state& shared) {
      const int poller = epoll_create1(0);
      // Nobody writes to the socket, or reads what it sends.
      int ends[2];
      int piped[2];
      timeval patience = {0, 200'000};
      char bytes[4096] = {};
      iovec buffer = {bytes, sizeof bytes};
      const int file = memfd_create("sent", 0);
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pipe(piped) != 0 ||
          write(file, bytes, sizeof bytes) < 0 ||
          setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
          setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
        _exit(1);
      while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
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
        off_t from = 0;
        if (kind == receives) result = static_cast<int>(recv(ends[0], bytes, sizeof bytes, 0));
        if (kind == reads) result = static_cast<int>(preadv2(ends[0], &buffer, 1, -1, 0));
        if (kind == sends) result = static_cast<int>(sendfile(ends[0], file, &from, sizeof bytes));
        if (kind == writes) result = static_cast<int>(pwritev2(ends[0], &buffer, 1, -1, 0));
        if (kind == splices)
          result = static_cast<int>(splice(ends[0], nullptr, piped[1], nullptr, sizeof bytes, 0));
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
TEST_F(left_thread_test, a_signal_that_the_program_handles_still_ends_its_system_call) {
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

}  // namespace
}  // namespace tarn::profiler
