// SPDX-License-Identifier: MIT
// watchdog: tells where all threads are when an input, or a forked child, takes longer than 20 seconds, and how much
// processor time it had in them. Little processor time: the machine was busy with other programs. Much, or none while
// nothing else runs: a defect.
//
// Thread safety: begin and end are for the fuzzer's thread, one input at a time; run_in_child for any thread.
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
