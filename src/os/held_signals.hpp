// SPDX-License-Identifier: MIT
// held_signals: while one lives, what the engine writes in the program's thread fails with an error where the system would else send
// the thread SIGPIPE (nobody reads the pipe) or SIGXFSZ (the file would pass RLIMIT_FSIZE), which end a program.
//
// The signals are blocked; the one that a failed call has sent is taken away, unless another was waiting before. In a sandbox that
// the program has entered nothing is asked, and the signals come. Owner: one thread, in one function. Cost: two system calls.
#pragma once

#include <signal.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {

class held_signals {
 public:
  held_signals() {
    if (!asks_) return;
    system_call(SYS_rt_sigprocmask, SIG_BLOCK, &both, &before_, sizeof before_);
    // Only one that the program has blocked can be waiting.
    if ((before_ & both) != 0) system_call(SYS_rt_sigpending, &waiting_, sizeof waiting_);
  }
  held_signals(const held_signals&) = delete;
  held_signals& operator=(const held_signals&) = delete;
  ~held_signals() {
    if (asks_) system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, 0, sizeof before_);
  }

  // Returns what a system call has returned; if that is an error with a signal, takes the signal.
  long taken(long result) const {
    const std::uint64_t sent = result == -EPIPE ? pipe : (result == -EFBIG ? limit : 0);
    const std::uint64_t mine = sent & ~waiting_;
    constexpr timespec now{};
    if (asks_ && mine != 0) system_call(SYS_rt_sigtimedwait, &mine, 0, &now, sizeof mine);
    return result;
  }

 private:
  static constexpr std::uint64_t pipe = std::uint64_t{1} << (SIGPIPE - 1);
  static constexpr std::uint64_t limit = std::uint64_t{1} << (SIGXFSZ - 1);
  static constexpr std::uint64_t both = pipe | limit;

  const bool asks_ = !has_entered_sandbox();
  std::uint64_t before_ = 0;
  std::uint64_t waiting_ = 0;
};

}  // namespace tarn::os
