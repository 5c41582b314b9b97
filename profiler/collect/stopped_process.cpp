// SPDX-License-Identifier: MIT
#include "profiler/collect/stopped_process.hpp"

#include <algorithm>
#include <cstring>

#include "profiler/attach/attach_error.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr double most_wait_seconds = 1;  // for one thread
constexpr std::size_t most_stopped = 10000;

}  // namespace

stopped_process::stopped_process(pid_t process) : process_(process) {
  // Threads that do not stand still yet may start new ones, so repeat until none is found.
  while (problem_.empty() && stop_new_threads()) {
  }
  if (problem_.empty() && threads_.empty()) problem_ = "the process has ended";
}

// The first thread comes last: if the process was killed, it cannot be waited for before the others.
stopped_process::~stopped_process() {
  while (!stopped_.empty()) stopped_.pop_back();
}

// False: there were no new threads.
bool stopped_process::stop_new_threads() {
  bool any = false;
  for (const std::uint32_t number : threads_of(static_cast<std::uint32_t>(process_))) {
    const auto id = static_cast<pid_t>(number);
    const auto known =
        std::any_of(stopped_.begin(), stopped_.end(), [id](const auto& one) { return one->thread() == id; });
    if (known || stopped_.size() >= most_stopped) continue;
    try {
      stop(id);
      any = true;
    } catch (const process_gone&) {  // this thread has ended
    } catch (const attach_error& error) {
      problem_ = error.what();
    }
    if (!problem_.empty()) return false;
  }
  return any;
}

void stopped_process::stop(pid_t id) {
  auto one = std::make_unique<remote_thread>(process_, id);
  register_set set = {};
  if (!one->stop(most_wait_seconds)) {
    problem_ = "a thread sleeps in the kernel where nothing can stop it";
  } else if (!get_registers(id, set)) {
    problem_ = "the registers of a thread cannot be read";
  }
  stopped_.push_back(std::move(one));
  thread& added = threads_.emplace_back();
  added.stack_pointer = stack_pointer(set);
  added.registers.resize(sizeof set / sizeof(std::uint64_t));
  std::memcpy(added.registers.data(), &set, added.registers.size() * sizeof(std::uint64_t));
}

}  // namespace tarn::profiler
