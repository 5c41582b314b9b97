// SPDX-License-Identifier: MIT
// stopped_process: a process of which all threads stand still while this object lives, and their registers. They go on
// afterwards as if nothing had been: signals that came meanwhile are delivered then.
// For one thread of this process. The kernel must allow it to trace the process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tarn::profiler {

class stopped_process {
 public:
  struct thread {
    pid_t id = 0;
    int signal = 0;  // that it was about to get
    std::uint64_t stack_pointer = 0;
    std::vector<std::uint64_t> registers;
  };

  explicit stopped_process(pid_t process);
  ~stopped_process();
  stopped_process(const stopped_process&) = delete;
  stopped_process& operator=(const stopped_process&) = delete;

  // Why not all threads stand still; empty: they do.
  const std::string& problem() const noexcept { return problem_; }
  const std::vector<thread>& threads() const noexcept { return threads_; }

 private:
  bool stop_new_threads();
  bool stop(pid_t id);

  pid_t process_;
  std::vector<thread> threads_;
  std::string problem_;
};

}  // namespace tarn::profiler
