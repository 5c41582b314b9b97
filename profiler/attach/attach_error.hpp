// SPDX-License-Identifier: MIT
// attach_error: why a running process cannot be recorded. Immutable; any thread.
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tarn::profiler {

// Why a process cannot be recorded, and what to do about it.
class attach_error : public std::runtime_error {
 public:
  attach_error(const std::string& problem, std::string advice)
      : std::runtime_error(problem), advice_(std::move(advice)) {}
  [[nodiscard]] const std::string& advice() const noexcept { return advice_; }

 private:
  std::string advice_;
};

// The process has ended or has called exec.
class process_gone : public attach_error {
 public:
  explicit process_gone(pid_t process)
      : attach_error("process " + std::to_string(process) + " has ended, or does not exist",
                     "List the processes: ps -e") {}
};

}  // namespace tarn::profiler
