// SPDX-License-Identifier: MIT
// watchdog: if an input takes longer than 20 seconds, prints the stack of every thread and how much processor time the
// process used. Little processor time on a busy machine means that other programs took it; much of it, or none on an
// idle machine, means a defect. A forked child that takes longer than 20 seconds prints its stack.
//
// Thread safety: watched_run is for the fuzzer's thread, one input at a time; any thread may call run_in_child.
#pragma once

#include <functional>

namespace tarn::fuzz {

class watched_run {
 public:
  watched_run();
  ~watched_run();
  watched_run(const watched_run&) = delete;
  watched_run& operator=(const watched_run&) = delete;
};

// Runs `what` in a forked child and waits for it; the child must end with status 0.
void run_in_child(const std::function<void()>& what);

}  // namespace tarn::fuzz
