// SPDX-License-Identifier: MIT
#include "profiler/collect/stopped_process.hpp"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "profiler/collect/ticks.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr int event_stop = 128;                    // PTRACE_EVENT_STOP
constexpr std::uint64_t most_wait_ns = second_ns;  // for one thread
constexpr std::size_t most_stopped = 10000;
constexpr long poll_ns = 20000;

#if defined(__x86_64__)
using register_set = user_regs_struct;
std::uint64_t stack_pointer_in(const register_set& set) { return set.rsp; }
#elif defined(__aarch64__)
using register_set = user_pt_regs;
std::uint64_t stack_pointer_in(const register_set& set) { return set.sp; }
#endif

bool has_ended(pid_t process, pid_t id) { return syscall(SYS_tgkill, process, id, 0) != 0; }

bool read_registers(stopped_process::thread& into) {
  register_set set = {};
  iovec room = {&set, sizeof set};
  if (ptrace(PTRACE_GETREGSET, into.id, NT_PRSTATUS, &room) != 0) return false;
  into.stack_pointer = stack_pointer_in(set);
  into.registers.resize(sizeof set / sizeof(std::uint64_t));
  std::memcpy(into.registers.data(), &set, into.registers.size() * sizeof(std::uint64_t));
  return true;
}

// Waits for stops only: the exit status of a thread is left for its parent. False: the thread has not stopped
// within most_wait_ns.
bool wait_for_stop(pid_t id, int& status) {
  const std::uint64_t until = raw_clock_ns() + most_wait_ns;
  do {
    siginfo_t change = {};
    if (waitid(P_PID, static_cast<id_t>(id), &change, WSTOPPED | WNOHANG | __WALL) != 0 && errno != EINTR)
      return false;
    if (change.si_pid == id) {
      status = change.si_status;
      return true;
    }
    const timespec pause = {0, poll_ns};
    nanosleep(&pause, nullptr);
  } while (raw_clock_ns() < until);
  return false;
}

void await_end(pid_t id) {
  const std::uint64_t until = raw_clock_ns() + most_wait_ns;
  siginfo_t end = {};
  while (waitid(P_PID, static_cast<id_t>(id), &end, WEXITED | WNOHANG | __WALL) == 0 && end.si_pid == 0 &&
         raw_clock_ns() < until) {
    const timespec pause = {0, poll_ns};
    nanosleep(&pause, nullptr);
  }
}

bool is_own_child(pid_t process) {
  return status_line(proc_text(static_cast<std::uint32_t>(process), "status"), "PPid") ==
         std::to_string(getpid());
}

}  // namespace

stopped_process::stopped_process(pid_t process) : process_(process) {
  // Threads that do not stand still yet may start new ones, so repeat until none is found.
  while (problem_.empty() && stop_new_threads()) {
  }
  if (problem_.empty() && threads_.empty()) problem_ = "the process has ended";
}

// A thread that was killed cannot be detached: its tracer must wait for its end, or its process never ends for its
// parent. The status of the first thread is the process's, which belongs to its parent: where that is this process, it
// is left for whoever started the process. The first thread comes last, as it cannot be waited for before the others.
stopped_process::~stopped_process() {
  for (auto each = threads_.rbegin(); each != threads_.rend(); ++each) {
    if (ptrace(PTRACE_DETACH, each->id, nullptr, static_cast<long>(each->signal)) == 0 || errno != ESRCH)
      continue;
    if (each->id != process_ || !is_own_child(process_)) await_end(each->id);
  }
}

// False: there were no new threads.
bool stopped_process::stop_new_threads() {
  bool any = false;
  for (const std::uint32_t number : threads_of(static_cast<std::uint32_t>(process_))) {
    const auto id = static_cast<pid_t>(number);
    const auto known =
        std::any_of(threads_.begin(), threads_.end(), [id](const thread& one) { return one.id == id; });
    if (known || threads_.size() >= most_stopped) continue;
    any = stop(id) || any;
    if (!problem_.empty()) return false;
  }
  return any;
}

// False: the thread has ended, or `problem_` tells why it does not stop.
bool stopped_process::stop(pid_t id) {
  if (ptrace(PTRACE_SEIZE, id, nullptr, nullptr) != 0) {
    if (errno == ESRCH) return false;
    problem_ = std::string("its threads may not be stopped (ptrace: ") + std::strerror(errno) + ")";
    return false;
  }
  int status = 0;
  thread& added = threads_.emplace_back();
  added.id = id;
  if (ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr) != 0 || !wait_for_stop(id, status)) {
    if (has_ended(process_, id)) {
      threads_.pop_back();
      return false;
    }
    problem_ = "a thread sleeps in the kernel where nothing can stop it";
    return false;
  }
  // The thread stopped either for PTRACE_INTERRUPT, or before the delivery of a signal, which is passed on at
  // detach.
  added.signal = status >> 8 == event_stop ? 0 : status & 0x7f;
  if (!read_registers(added)) problem_ = "the registers of a thread cannot be read";
  return true;
}

}  // namespace tarn::profiler
