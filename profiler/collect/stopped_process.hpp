// SPDX-License-Identifier: MIT
// stopped_process: a process whose threads are all stopped (ptrace) while this object lives, and their registers.
// Afterwards they go on as if nothing had happened: signals that arrived during the stop are delivered then. For one
// thread. The kernel must allow this process to trace the other.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiler/attach/remote_thread.hpp"

namespace tarn::profiler {

class stopped_process {
 public:
  struct thread {
    std::uint64_t stack_pointer = 0;
    std::vector<std::uint64_t> registers;
  };

  explicit stopped_process(pid_t process);
  ~stopped_process();
  stopped_process(const stopped_process&) = delete;
  stopped_process& operator=(const stopped_process&) = delete;

  // Why not all threads could be stopped; empty: all are.
  const std::string& problem() const noexcept { return problem_; }
  const std::vector<thread>& threads() const noexcept { return threads_; }

 private:
  bool stop_new_threads();
  void stop(pid_t id);

  pid_t process_;
  std::vector<std::unique_ptr<remote_thread>> stopped_;
  std::vector<thread> threads_;  // of stopped_
  std::string problem_;
};

}  // namespace tarn::profiler
