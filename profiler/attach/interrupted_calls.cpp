// SPDX-License-Identifier: MIT
#include "profiler/attach/interrupted_calls.hpp"

#include <fmt/core.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <string>

#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr long repeatable[] = {
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
    SYS_epoll_wait_old,
#endif
    SYS_epoll_pwait,
    441,  // epoll_pwait2
    SYS_semop,
    SYS_semtimedop,
    SYS_rt_sigtimedwait,
    SYS_io_getevents,
    SYS_io_pgetevents,
    SYS_io_uring_enter,
    // Of sockets with a timeout (SO_RCVTIMEO, SO_SNDTIMEO); a transfer that has begun returns what it has.
    SYS_accept,
    SYS_accept4,
    SYS_connect,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    // Of such sockets, and of inotify before Linux 3.8.
    SYS_read,
    SYS_readv,
    SYS_write,
    SYS_writev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_sendfile,
    SYS_splice,
};

std::uint64_t set_in(const std::string& status, const char* name) {
  return std::strtoull(status_line(status, name).c_str(), nullptr, 16);
}

bool handled_signal_waits(pid_t process, pid_t thread, std::uint64_t mask) {
  const std::string status =
      proc_text(static_cast<std::uint32_t>(process), fmt::format("task/{}/status", thread).c_str());
  return ((set_in(status, "SigPnd") | set_in(status, "ShdPnd")) & set_in(status, "SigCgt") & ~mask) != 0;
}

}  // namespace

bool may_be_repeated(long system_call) {
  return std::find(std::begin(repeatable), std::end(repeatable), system_call) != std::end(repeatable);
}

register_set without_interruption(pid_t process, pid_t thread, const thread_state& stopped) {
  register_set set = stopped.registers;
  const auto [number, result] = call_of(set);
  if (number >= 0 && result == -EINTR && may_be_repeated(number) &&
      !handled_signal_waits(process, thread, stopped.mask)) {
    repeat_call(set);
  }
  return set;
}

bool waits_for_lock_at(pid_t process, const register_set& set, std::uint64_t address) {
  return sleeps_in_call(process, set) && number_of_sleep(set) == SYS_futex && first_of_sleep(set) == address;
}

disturbance disturbance_of(pid_t process, pid_t thread) {
  // "running", or the number of the system call.
  const std::string text =
      proc_text(static_cast<std::uint32_t>(process), fmt::format("task/{}/syscall", thread).c_str());
  if (text.starts_with("running")) return disturbance::none;
  return may_be_repeated(std::strtol(text.c_str(), nullptr, 10)) ? disturbance::repeat : disturbance::restart;
}

}  // namespace tarn::profiler
